"""Suites: scenarios, what has to come of each, and how all of them are run on few clusters (docs/suites.md).

spec, matrix     from a file to cases
flags            what the command says about their clusters, and which cases cannot be had so
expectation      what has to come of a case, and whether it did
case_filter      -k and --only
feasibility      what each case needs of a cluster, which cases cannot be had here, and in what order they come
resource_pool    the cluster and the Spark session that cases share, for as long as that is safe (`health`)
tries            one case: its tries, and what is tried again
state            how far a suite has come, on disk after each try
running          the suite, case by case
ci_output        JUnit XML and a summary for CI systems
terminal         the table
"""
