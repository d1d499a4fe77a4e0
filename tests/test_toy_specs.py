"""The question of a sweep: what it comes to, and what is refused by name."""

import pytest
from pydantic import ValidationError

from gramian.geometry.presets import PRESETS
from gramian.geometry.toy_study import TrainingPlan
from gramian.specs import parse_spec
from gramian.toy_specs import MOST_CELLS, ToyModelSpec

GRID = {
    "features": 1000,
    "dims": [10, 16, 25, 40, 63, 100],
    "weight_decay": [-1.0, 1.0],
    "frequencies": {"law": "power", "exponent": [1.0, 1.5]},
}


def spec(**more):
    return ToyModelSpec.model_validate(GRID | more)


def test_a_grid_is_every_combination_with_every_seed():
    cells = list(spec(replicates=3, seed=7).cells())
    assert len(cells) == 6 * 2 * 2 * 3
    assert {cell.seed for cell in cells} == {7, 8, 9}
    assert len(set(cells)) == len(cells)
    assert cells[0].plan == TrainingPlan()  # the published sweeps'


def test_one_value_stands_for_a_list_of_one():
    one = spec(weight_decay=-1.0, frequencies={"law": "exponential", "scale": 400})
    assert (one.weight_decay, one.frequencies.scale) == ((-1.0,), (400.0,))


def test_listed_probabilities_are_kept_as_they_are():
    listed = spec(features=4, dims=[2], frequencies={"law": "list", "probabilities": [0.1, 0.5, 0.2, 0.4]})
    cell = next(listed.cells())
    assert cell.probabilities().tolist() == pytest.approx([0.5, 0.4, 0.2, 0.1])


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("size", ["reduced", "full", None])
def test_a_preset_is_its_studies_and_never_too_large(name, size):
    found = ToyModelSpec.model_validate({"preset": name} | ({"size": size} if size else {}))
    preset = PRESETS[name]
    assert found.studies() == (preset.full if size == "full" else preset.reduced)
    assert 0 < len(list(found.cells())) <= MOST_CELLS


def test_the_same_question_has_the_same_parameters_however_it_is_put():
    named, unnamed = ToyModelSpec(preset="fig5", size="reduced"), ToyModelSpec(preset="fig5")
    assert named.parameters() == unnamed.parameters()
    assert ToyModelSpec(preset="fig6").parameters() != unnamed.parameters()
    listed, single = spec(weight_decay=[1.0]), spec(weight_decay=1.0, warmup_steps=2000, density=1.0, seed=0)
    assert listed.parameters() == single.parameters()
    assert spec(seed=1).parameters() != spec().parameters()


def test_what_is_stored_is_read_back_as_the_same_cells():
    for asked in (spec(replicates=2), ToyModelSpec(preset="fig3")):
        again = parse_spec(asked.model_dump(mode="json"))
        assert list(again.cells()) == list(asked.cells())
        assert again.parameters() == asked.parameters()


@pytest.mark.parametrize(
    ("changes", "place", "words"),
    [
        ({"features": None}, "features", "preset"),
        ({"dims": None}, "dims", "preset"),
        ({"frequencies": None}, "frequencies", "preset"),
        ({"preset": "fig3"}, "features", "its own"),
        ({"size": "full"}, "size", "preset"),
        ({"features": 10**6}, "features", "20480"),
        ({"features": 1}, "features", "2"),
        ({"dims": []}, "dims", "1 item"),
        ({"dims": [1000]}, "dims", "fewer dimensions"),
        ({"dims": [10, 10]}, "dims", "more than once"),
        ({"dims": [0]}, "dims", "greater"),
        ({"dims": list(range(1, 200))}, "dims", "64"),
        ({"weight_decay": [float("nan")]}, "weight_decay", "finite"),
        ({"weight_decay": []}, "weight_decay", "1 item"),
        ({"frequencies": {"law": "zipf"}}, "frequencies", "law"),
        ({"frequencies": {"law": "power", "exponent": [-1]}}, "frequencies", "greater"),
        ({"frequencies": {"law": "list", "probabilities": [0.5, 0.1]}}, "frequencies", "1000 features"),
        ({"frequencies": {"law": "list", "probabilities": [2.0] * 1000}}, "frequencies", "less"),
        ({"density": 500.0}, "density", "probability"),
        ({"density": float("inf")}, "density", "finite"),
        ({"batch": 2**17 + 1}, "batch", "131072"),
        ({"features": 20_000, "batch": 2**14}, "batch", "134,217,728"),
        ({"steps": 0}, "steps", "greater"),
        ({"steps": 10**9}, "steps", "200000"),
        ({"steps": 100, "warmup_steps": 100}, "warmup_steps", "fewer"),
        ({"seed": -1}, "seed", "greater"),
        ({"replicates": 64}, "replicates", "1,200"),
        ({"weight_decay": [i / 100 for i in range(64)], "dims": list(range(1, 65))}, "replicates", "8,192 cells"),
        ({"features": 20_000, "dims": [10], "steps": 10, "batch": None}, "batch", "integer"),
        (
            {"features": 20_000, "dims": [1999, 2000], "batch": 16, "replicates": 5},
            "replicates",
            "536,870,912",
        ),
        ({"colour": 1}, "colour", "not permitted"),
    ],
)
def test_what_cannot_be_run_is_refused_by_its_place_and_limit(changes, place, words):
    with pytest.raises(ValidationError) as refused:
        spec(**changes)
    said = [error["msg"] for error in refused.value.errors() if error["loc"][0] == place]
    assert any(words in message for message in said), refused.value
