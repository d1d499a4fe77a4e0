"""The examples in the docstrings of the geometry are true."""

import doctest
import importlib
import pkgutil

import pytest

import gramian.geometry

MODULES = [module.name for module in pkgutil.iter_modules(gramian.geometry.__path__)]


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_a_module_hold(module):
    outcome = doctest.testmod(importlib.import_module(f"gramian.geometry.{module}"))
    assert outcome.failed == 0
