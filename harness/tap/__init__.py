"""The tap: a proxy in front of every broker that understands Kafka's protocol, sees each exchange and can bend it.

frames.py     bytes into frames, whatever arrives
codec.py      what a frame says: headers, requests, responses, their partitions
batches.py    record batches: what their headers say, and batches made anew
exchange.py   one request with its response, and what can be done to it (`Bend`, effects)
rules.py      bends that a scenario writes down
broken/       bends with a name that play a broker with a bug
seeing.py     exchanges into the history
proxy.py      connections
process.py    the process that all of this runs in
taps.py       the runner's side of it
"""
