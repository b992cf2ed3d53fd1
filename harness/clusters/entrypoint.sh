#!/bin/sh
# Starts one Kafka node from its environment, in the convention of the apache/kafka image, so that one compose file
# serves that image and ours: KAFKA_A_B is the property a.b (`__` stands for `_`, `___` for `-`).
# TIDEGAUGE_ENTRYPOINT_DRY_RUN=1 prints the properties and starts nothing.
set -eu

# Every property, one per line, with its value escaped for java.util.Properties. Values may hold anything: a line feed
# travels as \001, so that sed sees one variable per line.
properties() {
    line_feed=$(printf '\001')
    carriage_return=$(printf '\r')
    env -0 | tr '\n\000' '\001\n' | LC_ALL=C sed -nE -e '
        /^KAFKA_[A-Za-z0-9_]+=/!d
        /^KAFKA_(OPTS|HEAP_OPTS|JVM_PERFORMANCE_OPTS|GC_LOG_OPTS|VERSION)=/d
        /^KAFKA_(TOOLS_)?(LOG4J|JMX)_/d
        h
        s/^KAFKA_([^=]*)=.*/\1/
        y/ABCDEFGHIJKLMNOPQRSTUVWXYZ_/abcdefghijklmnopqrstuvwxyz./
        s/\.\.\./-/g
        s/\.\./_/g
        x
        s/^[^=]*=//
        s/\\/\\\\/g' -e "
        s/$line_feed/\\\\n/g
        s/$carriage_return/\\\\r/g" -e '
        s/^[[:blank:]]/\\&/
        x
        G
        s/\n/=/
        p'
}

export KAFKA_LOG_DIRS="${KAFKA_LOG_DIRS:-/tmp/kraft-combined-logs}"
if [ -n "${TIDEGAUGE_ENTRYPOINT_DRY_RUN:-}" ]; then
    properties
    exit
fi

: "${CLUSTER_ID:?must be set, to the same 22 characters on every node}"
config=/opt/kafka/config/server.properties
properties >"$config"

# Only a new container is formatted: after `docker restart` the data is still there.
if [ ! -e "${KAFKA_LOG_DIRS%%,*}/meta.properties" ]; then
    java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp '/opt/kafka/libs/*' \
        kafka.tools.StorageTool format --cluster-id "$CLUSTER_ID" --config "$config"
fi

# Options are split at spaces and nothing else; exec makes Java process 1, so that signals reach it.
set -f
# shellcheck disable=SC2086
exec java ${KAFKA_HEAP_OPTS:-} ${KAFKA_JVM_PERFORMANCE_OPTS:-} ${KAFKA_OPTS:-} \
    -Dorg.slf4j.simpleLogger.logFile=System.out -Dorg.slf4j.simpleLogger.showDateTime=true \
    '-Dorg.slf4j.simpleLogger.dateTimeFormat=[yyyy-MM-dd HH:mm:ss,SSS]' \
    -cp '/opt/kafka/libs/*' kafka.Kafka "$config"
