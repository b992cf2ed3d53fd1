"""From findings to a verdict: the check of a run, policies, the diagnosis, and the sentences about all of it."""
