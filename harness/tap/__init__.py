"""The tap: a proxy in front of every broker that understands Kafka's protocol, sees each exchange and can bend it.

frames.py       bytes into frames, whatever arrives
codec.py        what a frame says: headers, requests, responses, their partitions
headers.py      what the headers of record batches say, for many at once
exchange.py     one request with its response, and what can be done to it (`Bend`, effects)

proxy.py        the taps, and what they share
sides.py        the two ends of a connection
connection.py   what goes between them
addresses.py    brokers' addresses in answers, replaced by taps'

seeing.py       exchanges into the history; seen_rows.py and seen_groups.py know the APIs
sessions.py     fetch sessions, ended where every Fetch has to list its partitions
rules.py        bends that a scenario writes down; vocabulary.py has their words, rule_bend.py carries them out
stale.py        answers that are given again
resends.py      sends that come again after they were bent
broken/         bends with a name that play a broker with a bug; batches.py makes record batches anew for them
bounded.py      a dictionary that does not grow without end

spec.py         what a scenario says about the tap
process.py      the process that all of this runs in
taps.py         the runner's side of it
standalone.py   taps without a run, for anybody's client
"""
