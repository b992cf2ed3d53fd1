"""The brokers that nodes list in answers to Metadata, and which of them a node leaves out that others vouch for."""

from __future__ import annotations

import polars as pl

SLOT_AND_NODE = ("slot", "node")


def answer_spans(said: pl.DataFrame) -> pl.DataFrame:
    """From when to when each node answered, by slot."""
    return said.group_by(SLOT_AND_NODE).agg(pl.col("first").min(), pl.col("last").max())


def any_and_each(said: pl.DataFrame, of: str) -> pl.DataFrame:
    """Per slot and node, of several lists the brokers that are in any of them, and those that are in each."""
    different = said.select(*SLOT_AND_NODE, pl.col(of).alias("any")).unique()
    is_alone = pl.len().over(SLOT_AND_NODE) == 1
    alone, several = different.filter(is_alone).with_columns(each="any"), different.filter(~is_alone)
    if several.is_empty():
        return alone
    groups = several.group_by(SLOT_AND_NODE).agg(answers=pl.len()).with_row_index("group")
    in_all = pl.col("listed") == pl.col("answers")
    merged = (
        _counted(several.join(groups, on=SLOT_AND_NODE))
        .join(groups, on="group")
        .sort("id")
        .group_by(SLOT_AND_NODE, maintain_order=True)
        .agg(any=pl.col("id").str.join(","), each=pl.col("id").filter(in_all).str.join(","))
    )
    return pl.concat([alone, merged])


def _counted(several: pl.DataFrame) -> pl.DataFrame:
    """Per group how many of its lists have a broker: as numbers, for this has a row for each broker of each list."""
    texts = several.select("any").unique().with_row_index("text")
    ids = texts.select("text", id=pl.col("any").str.split(",")).explode("id")
    names = ids.select("id").unique().with_row_index("number")
    numbered = ids.join(names, on="id").select("text", "number")
    rows = several.join(texts, on="any").select("group", "text").join(numbered, on="text")
    return rows.group_by("group", "number").agg(listed=pl.len()).join(names, on="number")


def _ids(said: pl.DataFrame, of: str) -> pl.DataFrame:
    """A row for each broker of each list."""
    texts = said.select(of).unique()
    ids = texts.with_columns(id=pl.col(of).str.split(",")).explode("id")
    return said.select(*SLOT_AND_NODE, of).join(ids, on=of).drop(of)


def left_out(said: pl.DataFrame) -> pl.DataFrame:
    """Who left out whom in which slot."""
    differing = said.filter(pl.col("any").n_unique().over("slot") > 1)
    vouched = _listed(differing, "each", differing).select("slot", "other").unique()
    return (
        differing.select("slot", "node", "first", "last")
        .join(vouched, on="slot")
        .filter(pl.col("node") != pl.col("other"))
        .join(_listed(differing, "any", differing), on=["slot", "node", "other"], how="anti")
    )


def _listed(said: pl.DataFrame, of: str, everybody: pl.DataFrame) -> pl.DataFrame:
    """Who listed whom in which slot, of those that answered in it."""
    answered = everybody.select("slot", other="node", id=pl.col("node").cast(pl.String))
    return _ids(said, of).join(answered, on=["slot", "id"]).select("slot", "node", "other")


def unlisted_stretches(said: pl.DataFrame) -> pl.DataFrame:
    """Of each pair the slots in which one was left out, with none between in which it was listed, put together.

    `always`: there is no list at all of that node that has it.
    """
    missing = left_out(said)
    pairs = missing.select("node", "other").unique()
    listed = _listed(said.join(pairs, on="node", how="semi"), "any", said).join(pairs, on=["node", "other"], how="semi")
    both = pl.concat([missing.with_columns(lists=False), listed.with_columns(lists=True)], how="diagonal")
    stretches = (
        both.sort("node", "other", "slot")
        .with_columns(stretch=pl.col("lists").cum_sum())
        .filter(~pl.col("lists"))
        .group_by("node", "other", "stretch", maintain_order=True)
    )
    known = _ids(said.join(pairs, on="node", how="semi"), "any").select("node", "id").unique()
    return (
        stretches.agg(since=pl.col("first").min(), until=pl.col("last").max())
        .with_columns(id=pl.col("other").cast(pl.String))
        .join(known.with_columns(knows=True), on=["node", "id"], how="left", maintain_order="left")
        .select("node", "other", "since", "until", always=pl.col("knows").is_null())
    )
