"""What all checkers are made of: tables and pieces of a history, the steps of a check, and the jobs around them."""
