"""What checkers of several families look at, made once: fates of values, steps of readers, stretches of time."""
