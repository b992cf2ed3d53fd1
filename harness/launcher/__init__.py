"""What an installed Tidegauge starts from: the package `tidegauge`, the only one that it adds to an environment."""
