"""Exploring: settings and faults that nobody thought of, run on a real cluster, and what they found made small.

    search_space   which loads and faults are possible, and the candidates of a seed, drawn by hypothesis
    goal           which anomalies of a run count as a finding
    weights        what is drawn more often when those are named
    search         try after try within a time budget, until one has a finding
    shrink         the smallest load and the shortest schedule that still show it
    runs           the real runs, on a cluster that they share
    command        all of that, and what was found is on disk from then on
    output         what is said on the terminal, to scripts, and in the scenario file that is kept

Hypothesis draws, and does not shrink: its own way takes hundreds of runs, and one of ours takes many seconds.
"""
