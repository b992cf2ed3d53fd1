"""What everything else stands on: errors, configuration, paths, processes. It imports nothing above."""
