"""The tap: a proxy in front of every broker that understands Kafka's protocol, sees each exchange and can change it.

frames.py             bytes into frames, whatever arrives
codec.py              what a frame says: headers, requests, responses, their partitions
batch_headers.py      what the headers of record batches say, for many at once
batches.py            one record batch, read and made again with changes
exchange.py           one request with its response, and what can be done to it (`Bend`, effects)

proxy.py              the taps, and what they share
streams.py            the two ends of a connection
connection.py         what goes between them
response_order.py     the order of the responses on a connection
addresses.py          brokers' addresses in answers, replaced by taps'

exchange_recorder.py  exchanges into the history; recorded_requests.py and recorded_groups.py know the APIs
fetch_sessions.py     fetch sessions, ended where every Fetch has to list its partitions
rules.py              bends that a scenario writes down; rule_names.py knows the names that rules use
rule_bend.py          one such rule at work
stale_answers.py      first answers, given again later
resends.py            sends that come again after they were bent
broken/               bends with a name that play a broker with a bug
bounded_dict.py       a dictionary that forgets its oldest entries

spec.py               what a scenario says about the tap
process.py            the process that all of this runs in
taps.py               the runner's side of it
"""
