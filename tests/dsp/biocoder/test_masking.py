"""No password or key of a project reaches a file of problems."""

import json
from pathlib import Path

import pytest

from jupyt5_dsp.biocoder.build_functions import build_functions
from jupyt5_dsp.biocoder.masking import mask_secrets

# Put together here, so that nobody's scanner takes them for keys.
AWS = "AKIA" + "IOSFODNN7EXAMPLF"
OPENAI = "sk-" + "proj-abcdefghijklmnopqrstuvwxyz0123456789"
GITHUB = "ghp_" + "a1B2" * 9
TOKEN = "eyJ" + "hbGciOiJIUzI1NiJ9." + "eyJ" + "zdWIiOiIxMjM0In0." + "c2lnbmF0dXJlMTIz"


@pytest.mark.parametrize("key", [AWS, OPENAI, GITHUB, TOKEN])
def test_well_known_forms_are_masked_wherever_they_stand(key: str) -> None:
    source = f'x = "{key}"\ndef f():\n    """Use {key}."""\n    return g(f"k={key}&", 1)  # {key}\n'
    masked, num = mask_secrets(source)
    assert num == 4
    assert masked == source.replace(key, "MASKED")


@pytest.mark.parametrize(
    ("source", "masked"),
    [
        ('API_KEY = "quite plain"', None),
        ('API_KEY = "plain"', 'API_KEY = "MASKED"'),
        ("é = 'é'; db_password = 'hunter2'; z = 1", "é = 'é'; db_password = 'MASKED'; z = 1"),
        (
            "def f(a, password='hunter2', *, b, apiKey=b'abcd'): pass",
            "def f(a, password='MASKED', *, b, apiKey=b'MASKED'): pass",
        ),
        ("connect(user='me', passwd='hunter2')", "connect(user='me', passwd='MASKED')"),
        (
            "c = {'client_secret': 'abcd', 'id': 'abcd'}",
            "c = {'client_secret': 'MASKED', 'id': 'abcd'}",
        ),
        ("self.auth_token: str = 'abcd'", "self.auth_token: str = 'MASKED'"),
        ("os.environ['SECRET'] = ('ab'\n  'cd')\nx", "os.environ['SECRET'] = ('''MASKED\n''')\nx"),
        ("KEY = 'a1b2c3d4e5f6a7b8'", "KEY = 'MASKED'"),
        ("url = 'https://me:hunter2@host/x'", "url = 'https://MASKED@host/x'"),
        ("SORT_KEY = 'gene_name_of_the_row'", None),
        ("token = 'ACGT'", None),
        ("password = read()", None),
        ("tokens = 'a1b2c3d4e5f6a7b8'", None),
        ("SEQUENCE = 'AKIAVLGRTGMKWLLPTAQS'", None),
        ("url = 'https://host/x:y@z'", None),
        ("def (: password = 'hunter2'", None),
    ],
)
def test_values_of_telling_names_are_masked(source: str, masked: str | None) -> None:
    found, num = mask_secrets(source)
    assert found == (source if masked is None else masked)
    assert num == (masked or "").count("MASKED")


def test_a_private_key_is_masked_and_no_line_moves() -> None:
    body = "\n".join(["MIIEpAIBAAKCAQEA" * 4] * 3)
    source = (
        f'K = """-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"""\nx = 1\n'
    )
    masked, num = mask_secrets(source)
    assert num == 1
    assert "MIIE" not in masked
    assert masked.count("\n") == source.count("\n")


def test_no_secret_is_built_into_problems(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "a.py").write_text(
        f'API_KEY = "{OPENAI}"\nAWS = "{AWS}"\nclass C:\n    password = "hunter2"\n'
        f'    def f(self, x):\n        """Ask with {GITHUB}."""\n'
        f'        return API_KEY + x + AWS + "{GITHUB}" + self.password\n'
    )
    found = build_functions(tmp_path / "p", tmp_path / "out")
    assert found["num_masked"] == 5
    text = (tmp_path / "out" / "functions.jsonl").read_text()
    assert not any(key in text for key in (OPENAI, AWS, GITHUB, "hunter2"))
    assert 'API_KEY = "MASKED"' in json.loads(text)["necessary"]
