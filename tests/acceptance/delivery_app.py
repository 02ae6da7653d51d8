"""An app with a channel of each kind, to receivers that the environment names."""

import os
import sys
from pathlib import Path

from msgspec.structs import replace

from standfast import AppriseChannel, CommandChannel, Standfast, WebhookChannel
from standfast.observe.alerts.alert_rules import DEFAULT_RULES

FOLDER = Path(__file__).resolve().parent
WRITE = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"
app = Standfast(f"sqlite:///{FOLDER}/jobs.db", lease=2, beat=0.25, grace=5, store_timeout=5)
app.alerts(
    rules=[replace(rule, enabled=False) for rule in DEFAULT_RULES],  # nothing is told but what a test orders
    channels=[
        WebhookChannel(
            name="ops", url=os.environ["OPS_URL"], secret=os.environ["OPS_SECRET"], headers={"X-Key": "key-of-ops"}
        ),
        AppriseChannel(name="mail", url=os.environ["MAIL_URL"]),
        CommandChannel(name="sms", command=(sys.executable, "-c", WRITE, str(FOLDER / "sms"))),
    ],
    dashboard_url="https://shop.example/jobs",
)
