"""The tasks of the shop, as Django knows them."""

from django_tasks import task
from django_tasks.signals import task_finished, task_started

from djshop.models import Order, Told


@task
def add(one, two=0):
    return one + two


@task
async def add_async(one, two=0):
    return one + two


@task
def fail(word):
    raise ValueError(word)


@task
async def fail_async(word):
    raise ValueError(word)


@task
def exit_with(word):
    raise SystemExit(word)


@task
def return_an_object():
    return object()


@task(takes_context=True)
def who_am_i(context):
    return [context.task_result.id, context.attempt, context.task_result.status]


@task(backend="tried", takes_context=True)
def succeed_at_last(context):
    if context.attempt == 1:
        raise ValueError("not yet")
    return context.attempt


@task
def store_order(name):
    return Order.objects.create(name=name).name


@task
async def store_order_async(name):
    return (await Order.objects.acreate(name=name)).name


@task(queue_name="mail", priority=7)
def mail(to):
    return to


@task(backend="elsewhere")
def add_elsewhere(one, two):
    return one + two


@task(backend="at_once")
def add_at_once(one, two):
    return one + two


def no_task():
    raise AssertionError("only tasks are run")


def _tell(what):
    def receiver(task_result, **_):
        Told.objects.create(
            result_id=task_result.id, what=what, status=task_result.status, errors=len(task_result.errors)
        )

    return receiver


_STARTED, _FINISHED = _tell("started"), _tell("finished")
task_started.connect(_STARTED)
task_finished.connect(_FINISHED)
