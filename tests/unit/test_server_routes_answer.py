"""An answer is kept by no cache and taken for nothing else, unless whoever gives it says so."""

from outlast.server.routes.answer import answer


def test_an_answer_is_json_that_no_cache_keeps_and_no_browser_guesses_about() -> None:
    response = answer(b'{"a":1}')
    assert (response.status_code, response.body) == (200, b'{"a":1}')
    assert dict(response.headers) == {
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        "content-length": "7",
        "content-type": "application/json",
    }


def test_what_is_said_of_one_answer_beats_what_holds_for_all() -> None:
    response = answer(b"{}", status=202, headers={"cache-control": "no-cache"}, media_type="application/problem+json")
    assert response.status_code == 202
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["content-type"] == "application/problem+json"
