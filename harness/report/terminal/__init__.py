"""What commands print: verdicts, tables, and JSON for scripts."""
