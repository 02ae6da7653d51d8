"""Views that enqueue, sync and async, within a transaction or not."""

from django.db import transaction
from django.http import JsonResponse
from django.urls import path
from django_tasks import default_task_backend

from djshop.models import Order
from djshop.shop_tasks import add, add_async


def told(result):
    return JsonResponse({"id": result.id, "status": result.status})


def enqueue(_request):
    return told(add.enqueue(40, two=2))


async def aenqueue(_request):
    return told(await add_async.aenqueue(40, two=2))


def order(_request, name, fate):
    with transaction.atomic():
        Order.objects.create(name=name)
        result = add.enqueue(1)
        transaction.set_rollback(fate == "rolled-back")
    return told(result)


def look(_request, result_id):
    return told(default_task_backend.get_result(result_id))


async def alook(_request, result_id):
    return told(await default_task_backend.aget_result(result_id))


urlpatterns = [
    path("enqueue", enqueue),
    path("aenqueue", aenqueue),
    path("order/<name>/<fate>", order),
    path("look/<result_id>", look),
    path("alook/<result_id>", alook),
]
