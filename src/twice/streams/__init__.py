"""Streams whose events land once, however often they are delivered."""

from __future__ import annotations

from twice.model.streams import KafkaSource, Process, RateSource, Stream, Windowed, Write

__all__ = ["KafkaSource", "Process", "RateSource", "Stream", "Windowed", "Write"]
