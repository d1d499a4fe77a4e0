"""What is asked of every answer."""

import json


def strict(answer):
    def refuse(constant):
        raise AssertionError(constant)

    assert answer.status_code == 200, answer.text
    return json.loads(answer.text, parse_constant=refuse)


def refused(answer, pointer):
    problem = answer.json()
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json"), answer.text
    assert pointer in [error["pointer"] for error in problem["errors"]], problem
    assert problem["detail"]
    assert problem["hint"]
    return problem
