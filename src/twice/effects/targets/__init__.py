"""Receivers, one file each: what they take, and whether they honour an idempotency key."""

from __future__ import annotations

from twice.effects.targets.http import Http
from twice.effects.targets.kafka import Kafka
from twice.effects.targets.smtp import Smtp
from twice.effects.targets.webhook import Webhook

__all__ = ["Http", "Kafka", "Smtp", "Webhook"]
