"""Loops over messages that run in the JVM, put together from method handles: there is nothing to compile.

A method handle is a function of Java's; here they are combined until one does the work for message `i`, and counted
loops call that for each. `Loops.send` takes about 10 microseconds for a message, sending included.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import jpype
import numpy as np
import numpy.typing as npt

from workloads.clients.java.machine import java_class

NOT_DONE, FAILED = -9, -8  # in place of an offset
Longs = npt.NDArray[np.int64]


class Loops:
    """The loops, made once per process."""

    def __init__(self) -> None:
        self._handles = java_class("java.lang.invoke.MethodHandles")
        self._lookup = self._handles.publicLookup()
        self._objects, self._longs = jpype.JArray(jpype.JObject).class_, jpype.JArray(jpype.JLong).class_
        self._int, self._long = java_class("java.lang.Integer").TYPE, java_class("java.lang.Long").TYPE
        self._void, self._object = java_class("java.lang.Void").TYPE, jpype.JObject.class_
        self._at = self._handles.arrayElementGetter(self._objects)
        self._send = self._sending()
        self._outcomes = self._asking()
        self._numbers = {
            name: self._reading(name, kind)
            for name, kind in (("offset", "Long"), ("serializedValueSize", "Integer"), ("serializedKeySize", "Integer"))
        }
        self._contents = {name: self._copying(name) for name in ("value", "key")}

    def send(  # noqa: PLR0913, PLR0917 - what a record is made of, in parallel arrays
        self, producer: Any, topic: Any, partitions: Any, keys: Any, values: Any, futures: Any
    ) -> None:
        """Send values[i] with keys[i] to partitions[i], and put what comes back into futures[i]."""
        self._send.invokeWithArguments(producer, topic, partitions, keys, values, futures)

    def outcomes(self, futures: Any) -> Longs:
        """The offset of each, FAILED or NOT_DONE."""
        found = jpype.JArray(jpype.JLong)(len(futures))
        self._outcomes.invokeWithArguments(futures, found)
        return np.array(found, dtype=np.int64)

    def numbers(self, records: Any, name: str) -> Longs:
        """A number that each record has: its offset, the size of its value (-1 without one) or of its key."""
        found = jpype.JArray(jpype.JLong)(len(records))
        self._numbers[name].invokeWithArguments(records, found)
        return np.array(found, dtype=np.int64)

    def contents(self, records: Any, name: str, sizes: Longs) -> list[bytes | None]:
        """The value or the key of each record."""
        ends = np.cumsum(np.maximum(sizes, 0))
        buffer = java_class("java.nio.ByteBuffer").allocate(int(ends[-1]) if len(ends) else 0)
        self._contents[name].invokeWithArguments(records, buffer)
        whole = bytes(buffer.array())
        starts = ends - np.maximum(sizes, 0)
        return [
            whole[start:end] if size >= 0 else None
            for start, end, size in zip(starts.tolist(), ends.tolist(), sizes.tolist(), strict=True)
        ]

    def _sending(self) -> Any:
        """futures[i] = producer.send(new ProducerRecord(topic, partitions[i], keys[i], values[i]))."""
        text, future = java_class("java.lang.String").class_, java_class("java.util.concurrent.Future").class_
        record = java_class("clients.producer.ProducerRecord").class_
        producer = java_class("clients.producer.Producer").class_
        parts = (text, java_class("java.lang.Integer").class_, self._object, self._object)
        new = self._lookup.findConstructor(record, self._type(self._void, *parts))
        made = new.asType(self._type(record, text, *[self._object] * 3))
        for position in (3, 2, 1):  # each of the last three is an element of an array
            made = self._handles.collectArguments(made, position, self._at)
        send = self._lookup.findVirtual(producer, "send", self._type(future, record))
        sent = self._handles.collectArguments(send, 1, made)
        put = self._handles.arrayElementSetter(self._objects).asType(
            self._type(self._void, self._objects, self._int, future)
        )
        stored = self._handles.collectArguments(put, 2, sent)
        given = (producer, text, *[self._objects] * 4)
        # stored: futures, i, producer, topic, partitions, i, keys, i, values, i
        return self._loop(stored, given, (6, 0, 1, 2, 3, 0, 4, 0, 5, 0), length_of=5)

    def _asking(self) -> Any:
        """found[i] = futures[i].isDone() ? futures[i].get().offset() : NOT_DONE, where get() may fail."""
        future, error = java_class("java.util.concurrent.Future").class_, java_class("java.lang.Exception").class_
        metadata = java_class("clients.producer.RecordMetadata").class_
        got = self._lookup.findVirtual(future, "get", self._type(self._object)).asType(self._type(metadata, future))
        offset = self._lookup.findVirtual(metadata, "offset", self._type(self._long))
        asked = self._handles.catchException(
            self._handles.filterReturnValue(got, offset), error, self._always(FAILED, error)
        )
        is_done = self._lookup.findVirtual(future, "isDone", self._type(java_class("java.lang.Boolean").TYPE))
        outcome = self._handles.guardWithTest(is_done, asked, self._always(NOT_DONE, future))
        return self._noted(outcome)

    def _reading(self, name: str, kind: str) -> Any:
        """found[i] = records[i].name()."""
        record = java_class("clients.consumer.ConsumerRecord").class_
        number = self._lookup.findVirtual(record, name, self._type(java_class(f"java.lang.{kind}").TYPE))
        return self._noted(number)

    def _noted(self, number: Any) -> Any:
        """found[i] = number(objects[i])."""
        number = number.asType(self._type(self._long, self._object))
        put = self._handles.arrayElementSetter(self._longs)
        noted = self._handles.collectArguments(put, 2, self._handles.collectArguments(number, 0, self._at))
        return self._loop(noted, (self._objects, self._longs), (2, 0, 1, 0), length_of=0)

    def _copying(self, name: str) -> Any:
        """If (records[i].name() != null) buffer.put(records[i].name())."""
        record = java_class("clients.consumer.ConsumerRecord").class_
        buffer, content = java_class("java.nio.ByteBuffer").class_, jpype.JArray(jpype.JByte).class_
        objects = java_class("java.util.Objects").class_
        put = self._lookup.findVirtual(buffer, "put", self._type(buffer, content))
        copy = put.asType(self._type(self._void, buffer, self._object))
        is_none = self._lookup.findStatic(
            objects, "isNull", self._type(java_class("java.lang.Boolean").TYPE, self._object)
        )
        nothing = self._handles.empty(self._type(self._void, self._object, buffer))
        reordered = self._handles.permuteArguments(
            copy, self._type(self._void, self._object, buffer), jpype.JArray(jpype.JInt)([1, 0])
        )
        chosen = self._handles.guardWithTest(is_none, nothing, reordered)  # content, buffer
        read = self._lookup.findVirtual(record, name, self._type(self._object))
        element = self._handles.collectArguments(read.asType(self._type(self._object, self._object)), 0, self._at)
        copied = self._handles.collectArguments(chosen, 0, element)  # records, i, buffer
        return self._loop(copied, (self._objects, buffer), (1, 0, 2), length_of=0)

    def _loop(self, body: Any, given: Sequence[Any], order: Sequence[int], *, length_of: int) -> Any:
        """For i below the length of one of the arrays given: body, whose arguments are i (0) and those given."""
        each = self._handles.permuteArguments(
            body, self._type(self._void, self._int, *given), jpype.JArray(jpype.JInt)(list(order))
        )
        length = self._handles.permuteArguments(
            self._handles.arrayLength(self._objects),
            self._type(self._int, *given),
            jpype.JArray(jpype.JInt)([length_of]),
        )
        return self._handles.countedLoop(length, None, each)

    def _always(self, number: int, given: Any) -> Any:
        constant = self._handles.constant(self._long, jpype.JLong(number))
        return self._handles.dropArguments(constant, 0, jpype.JArray(java_class("java.lang.Class"))([given]))

    def _type(self, returned: Any, *given: Any) -> Any:
        classes = jpype.JArray(java_class("java.lang.Class"))(list(given))
        return java_class("java.lang.invoke.MethodType").methodType(returned, classes)


@cache
def loops() -> Loops:
    """Those of this process."""
    return Loops()
