"""200 planted secrets of 20 kinds, and as many texts that only look like secrets.

Everything here is drawn from a seed: nothing is or was a real credential. Ten secrets a kind, each
in one of the kind's places in turn, every one in a notebook of its own between harmless cells.
"""

import base64
import json
import random
import string

from jupyt5_corpus.filters.secrets import redact

ALNUM = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
BASE64 = ALNUM + "+/"
URL_SAFE = ALNUM + "-_"
NUM_EACH = 10

HARMLESS = (
    "import numpy as np\nfrom pathlib import Path\n\nvalues = np.arange(10)\nprint(values.mean())",
    "def area(width, height):\n    return width * height  # square metres",
)


class Draw:
    """Draws the parts of secrets."""

    def __init__(self, seed):
        self._random = random.Random(seed)

    def of(self, letters, length):
        return "".join(self._random.choice(letters) for _ in range(length))

    def pick(self, *choices):
        return self._random.choice(choices)

    def number(self, low, high):
        return self._random.randint(low, high)

    def json64(self, **fields):
        return base64.urlsafe_b64encode(json.dumps(fields).encode()).rstrip(b"=").decode()

    def private_key(self):
        lines = "\n".join(self.of(BASE64, 64) for _ in range(24))
        return f"-----BEGIN RSA PRIVATE KEY-----\n{lines}\n-----END RSA PRIVATE KEY-----"

    def jwt(self):
        head = self.json64(alg="HS256", typ="JWT")
        body = self.json64(sub=self.of(string.digits, 10), name=self.of(ALNUM, 8))
        return f"{head}.{body}.{self.of(URL_SAFE, 43)}"

    def password(self):
        word = self.pick("Summer", "dragon", "Berlin", "letmein", "Falcon")
        human = f"{word}{self.number(100, 9999)}{self.pick('!', '#', '', '$')}"
        return self.pick(human, self.of(ALNUM + "!#%_", 12))

    def email(self):
        name = self.pick("ann.miller", "b_kim", "jose+lab", "c.weber", "d-novak")
        domain = self.pick("uni-bremen.de", "gmail.com", "physics.ox.ac.uk", "acme-labs.io")
        return f"{name}{self.number(1, 99)}@{domain}"

    def address(self):
        if self.number(0, 3) == 0:
            groups = ":".join(self.of(HEX, 4) for _ in range(5))
            return f"2a01:{groups}::{self.number(1, 9)}"
        return ".".join(
            str(self.number(*each)) for each in ((60, 99), (1, 254), (40, 90), (1, 254))
        )


# Kind → how a secret is drawn, and where such secrets stand in notebooks ({} is the secret).
PLANTED = {
    "AWS access key id": (
        lambda draw: "AKIA" + draw.of("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16),
        ("AWS_ACCESS_KEY_ID = '{}'", "!aws configure set aws_access_key_id {}", 'key_id="{}"'),
    ),
    "AWS secret key": (
        lambda draw: draw.of(BASE64, 40),
        (
            "aws_secret_access_key = '{}'",
            "os.environ['AWS_SECRET_ACCESS_KEY'] = '{}'",
            "%env AWS_SECRET_ACCESS_KEY={}",
        ),
    ),
    "GitHub token": (
        lambda draw: "ghp_" + draw.of(ALNUM, 36),
        ("!git clone https://{}@github.com/ann/private.git", "g = Github('{}')", "Use `{}`."),
    ),
    "GitLab token": (
        lambda draw: "glpat-" + draw.of(ALNUM, 20),
        ("gl = gitlab.Gitlab(url, private_token='{}')", "!curl -H 'PRIVATE-TOKEN: {}' $URL"),
    ),
    "Slack token": (
        lambda draw: "xoxb-" + "-".join((*[draw.of(string.digits, 12)] * 2, draw.of(ALNUM, 24))),
        ("client = WebClient(token='{}')", "slack = Slacker('{}')"),
    ),
    "Slack webhook": (
        lambda draw: (
            f"https://hooks.slack.com/services/T{draw.of(UPPER, 10)}"
            f"/B{draw.of(UPPER, 10)}/{draw.of(ALNUM, 24)}"
        ),
        ("requests.post('{}', json=message)", "!curl -X POST -d '{{}}' {}"),
    ),
    "Stripe key": (
        lambda draw: "sk_live_" + draw.of(ALNUM, 24),
        ("stripe.api_key = '{}'", "!stripe login --api-key {}"),
    ),
    "Google API key": (
        lambda draw: "AIza" + draw.of(URL_SAFE, 35),
        ("gmaps = googlemaps.Client(key='{}')", "url = f'https://maps.google.com/?key={}&q=x'"),
    ),
    "OpenAI key": (
        lambda draw: "sk-" + draw.of(ALNUM, 20) + "T3BlbkFJ" + draw.of(ALNUM, 20),
        ("openai.api_key = '{}'", "%env OPENAI_API_KEY={}", "llm = OpenAI('{}')"),
    ),
    "Anthropic key": (
        lambda draw: "sk-ant-api03-" + draw.of(URL_SAFE, 93) + "AA",
        ("client = Anthropic(api_key='{}')", "!export ANTHROPIC_API_KEY={}"),
    ),
    "Hugging Face token": (
        lambda draw: "hf_" + draw.of(string.ascii_letters, 34),
        ("login('{}')", "!huggingface-cli login --token {}", "HF_TOKEN = '{}'"),
    ),
    "PyPI token": (
        lambda draw: "pypi-AgEIcHlwaS5vcmc" + draw.of(URL_SAFE, 80),
        ("!twine upload -u __token__ -p {} dist/*", "TWINE_PASSWORD = '{}'"),
    ),
    "Azure storage key": (
        lambda draw: draw.of(BASE64, 86) + "==",
        (
            "conn = 'DefaultEndpointsProtocol=https;AccountName=mydata;AccountKey={};'",
            "storage_account_key = '{}'",
        ),
    ),
    "private key": (Draw.private_key, ('key = """{}"""', "{}")),
    "JWT": (Draw.jwt, ("headers = {{'Authorization': 'Bearer {}'}}", "token = '{}'", "jwt: {}")),
    "Kaggle key": (
        lambda draw: draw.of(HEX, 32),
        (
            "os.environ['KAGGLE_KEY'] = '{}'",
            'api_token = {{"username": "ann", "key": "{}"}}',
            '!echo \'{{"username":"ann","key":"{}"}}\' > ~/.kaggle/kaggle.json',
            "!kaggle config set -n key -v {}",
        ),
    ),
    "password in a URL": (
        lambda draw: draw.of(ALNUM, 14),
        (
            "engine = create_engine('postgresql://ann:{}@db.acme-labs.io:5432/sales')",
            "client = MongoClient('mongodb+srv://ann:{}@cluster0.ab1cd.mongodb.net/test')",
            "!pip install git+https://ann:{}@git.acme-labs.io/ann/lib.git",
        ),
    ),
    "password": (
        Draw.password,
        (
            "password = '{}'",
            "conn = psycopg2.connect(host='db', user='ann', password=\"{}\")",
            "config = {{'user': 'ann', 'passwd': '{}'}}",
            "DB_PASSWORD='{}'",
            "```\npassword: '{}'\n```",
        ),
    ),
    "e-mail address": (
        Draw.email,
        (
            "Written by Ann ({}).",
            "Entrez.email = '{}'",
            "[mail us](mailto:{})",
            "__author__ = '<{}>'",
        ),
    ),
    "IP address": (
        Draw.address,
        ("host = '{}'", "!ssh ann@{}", "Connected to {}, port 22.", "* Trying {}..."),
    ),
}

# Kind → how many of ten are found. What is missed has nothing to be known by: no quotes in a shell
# line (Kaggle), no digit or sign in a password.
MISSED = {"Kaggle key": 2, "password": 1}


def plant(kind, count=NUM_EACH):
    """Yield (secret, cell text) pairs, the same ones every time."""
    make, places = PLANTED[kind]
    draw = Draw(kind)
    for idx in range(count):
        secret = make(draw)
        yield secret, places[idx % len(places)].format(secret)


def run(make, cell):
    row = make.row(cells=make.cells(HARMLESS[0], cell, HARMLESS[1]))
    return redact(row)


def test_200_planted_secrets_of_20_kinds(make):
    num_missed, num_more = dict.fromkeys(PLANTED, 0), dict.fromkeys(PLANTED, 0)
    for kind in PLANTED:
        for secret, cell in plant(kind):
            row = run(make, cell)
            assert (row.cells[0].source, row.cells[2].source) == HARMLESS
            num_missed[kind] += secret in row.cells[1].source
            num_more[kind] += max(0, row.num_redactions - 1)
    assert len(PLANTED) * NUM_EACH == 200
    assert {kind: missed for kind, missed in num_missed.items() if missed} == MISSED
    # Precision: nothing but the secret was replaced.
    assert set(num_more.values()) == {0}


def test_a_placeholder_takes_the_place_of_the_secret_alone(make):
    for kind, placeholder in (
        ("password in a URL", "<PASSWORD>"),
        ("GitHub token", "<KEY>"),
        ("private key", "<KEY>"),
        ("e-mail address", "<EMAIL>"),
        ("IP address", "<IP_ADDRESS>"),
    ):
        for secret, cell in plant(kind):
            assert run(make, cell).cells[1].source == cell.replace(secret, placeholder)


def _lookalikes():
    """Yield texts of 20 kinds that look like secrets and are none, ten each."""
    draw = Draw("look-alikes")
    for number in range(10):
        sha1, sha256, md5 = draw.of(HEX, 40), draw.of(HEX, 64), draw.of(HEX, 32)
        small = [draw.number(0, 29) for _ in range(4)]
        yield f"!git checkout {sha1}"
        yield f"revision = '{sha1}'  # the commit of the model"
        yield f"assert hashlib.sha256(data).hexdigest() == '{sha256}'"
        yield f"file_hash='{md5}'"
        yield f"![plot](data:image/png;base64,iVBORw0KGgo{draw.of(BASE64, 600)}=)"
        yield f"IMAGE = '{draw.of(BASE64, 400)}'"
        yield f"!gdown --id {draw.of(URL_SAFE, 33)}"
        yield f"[open](https://colab.research.google.com/drive/{draw.of(URL_SAFE, 33)}#scrollTo=aB)"
        yield f"run_id = '{md5[:8]}-{md5[8:12]}-{md5[12:16]}-{md5[16:20]}-{md5[20:]}'"
        yield f"!pip install opencv-python==4.{number}.{draw.number(0, 99)}.{draw.number(32, 99)}"
        yield "### {}.{}.{}.{} Results".format(*small)
        yield f"server = '192.168.{number}.{draw.number(1, 254)}'; me = '127.0.0.1'"
        yield f"Mozilla/5.0 Chrome/1{number}4.0.0.0 Safari/537.36 from 10.{number}.88.99"
        yield f"email = 'reader{number}@example.com'  # or you@mail.example.org"
        yield "y = X@beta.dot(w) + A@B.T\n\n@tf.function\n!git clone git@github.com:a/b.git"
        yield f"api_key = 'YOUR_API_KEY_{number}'; token = '<your-token>'; password = getpass()"
        yield f"tokenizer = load('bert-base-{number}')\npad_token='[PAD{number}]'"
        yield f"password = os.environ['DB_PASSWORD']; secret = config['secret{number}']"
        yield f"for key, token in pairs: counts['key{number}'] += 1  # 12:30:4{number}:a1:b2"
        yield f"primary_key = 'user_id'; key='column_{number}'; foreign_key = \"table_{number}\""


def test_200_lookalikes_stay(make):
    changed = []
    for cell in _lookalikes():
        row = run(make, cell)
        if row.num_redactions:
            changed.append((cell, row.cells[1].source))
    assert len(list(_lookalikes())) == 200
    assert changed == []
