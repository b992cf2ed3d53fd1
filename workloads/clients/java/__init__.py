"""Apache Kafka's Java clients in the worker's own process, through JPype.

A call from Python into the JVM costs microseconds, several of them for each message would cost more than sending it.
So whatever is done for each message is done by loops that run in the JVM (`loops`), and crosses over in one array.
"""
