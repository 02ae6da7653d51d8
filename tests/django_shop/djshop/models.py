"""What the shop stores, and what its signals told."""

from django.db import models


class Order(models.Model):
    name = models.CharField(max_length=100, unique=True)

    def __str__(self):
        return self.name


class Told(models.Model):
    result_id = models.CharField(max_length=100)
    what = models.CharField(max_length=100)
    status = models.CharField(max_length=100)
    errors = models.IntegerField()

    def __str__(self):
        return f"{self.what}: {self.status}"
