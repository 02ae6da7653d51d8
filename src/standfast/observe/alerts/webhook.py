"""Sends by a signed POST, and checks such a signature for those who receive it.

X-Standfast-Delivery: the id of the notice, the same each time that it is sent
X-Standfast-Signature: t=UNIX,v1=HEX    HMAC-SHA256 with the secret, of `t`, a dot and the body
"""

import time
from http import HTTPStatus

from standfast.errors import DeliveryError
from standfast.model.validation import http_url
from standfast.observe.alerts import sign
from standfast.observe.alerts.channel import WebhookChannel
from standfast.observe.alerts.message import Message
from standfast.observe.http_client import HTTP_ERRORS, failure_reason, send_request

SIGNATURE = "X-Standfast-Signature"
DELIVERY = "X-Standfast-Delivery"


def send(channel: WebhookChannel, message: Message) -> None:
    """Send. Raises DeliveryError, whose words may have secrets in them."""
    body = message.as_json()
    headers = {
        "User-Agent": "standfast-alerts",
        "Content-Type": "application/json",
        **channel.headers,
        SIGNATURE: sign(channel.secret, int(time.time()), body),
        DELIVERY: message.notice.id,
    }
    url, began_at = http_url(channel.url, "the url", ""), time.monotonic()
    try:
        answer = send_request(url, channel.timeout, headers=headers, method="POST", body=body)
    except HTTP_ERRORS as error:
        is_late = time.monotonic() - began_at >= channel.timeout
        raise DeliveryError(
            f"no answer within {channel.timeout:g} s" if is_late else failure_reason(error)
        ) from None
    if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
        led = ", and it is not followed" if answer.location is not None else ""
        raise DeliveryError(f"the receiver answered {answer.says}{led}", retry=answer.status != HTTPStatus.GONE)
