"""Licences: texts to SPDX expressions, expressions to a policy's verdict."""

import json
import tarfile

import pytest

from jupyt5.errors import UsageError
from jupyt5_corpus.compression import open_packed
from jupyt5_corpus.filters.licences import (
    POLICIES,
    detect,
    is_allowed,
    is_permissive,
    judge,
    of_files,
)
from jupyt5_corpus.row import Removal

MIT = """MIT License

Copyright (c) 2024 Ann Miller

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction,
including without limitation the rights to use, copy, modify, merge, publish, distribute,
sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or
substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES
OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""
UNLICENSE = """This is free and unencumbered software released into the public domain.

Anyone is free to copy, modify, publish, use, compile, sell, or distribute this software, either in
source code form or as a compiled binary, for any purpose, commercial or non-commercial, and by any
means.

In jurisdictions that recognize copyright laws, the author or authors of this software dedicate any
and all copyright interest in the software to the public domain. We make this dedication for the
benefit of the public at large and to the detriment of our heirs and successors. We intend this
dedication to be an overt act of relinquishment in perpetuity of all present and future rights to
this software under copyright law.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY,
WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE
SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.

For more information, please refer to <http://unlicense.org>
"""
RESTRICTED = "The notebooks may be read, but not be used for any commercial purpose. " * 15

# Stated licence → what is found in the repository's licence file instead, of the 9 of 162 where
# the two differ. In five the file holds a second licence that the statement leaves out, one is a
# variant of the stated licence, three are not recognised (an HTML note, a text with much around
# the licences, an Apache text with words changed).
DIFFERENT = {
    "AmirrezaFarnamTaheri/Computational-Economics-and-Data-Science": "NOASSERTION",
    "agconti/kaggle-titanic": "NOASSERTION",
    "barbagroup/CFDPython": "CC-BY-3.0 AND BSD-3-Clause",
    "bqplot/bqplot": "Apache-2.0 AND BSD-3-Clause AND BSD-2-Clause",
    "ipython/ipython-in-depth": "BSD-3-Clause AND CC-BY-4.0",
    "numerical-mooc/numerical-mooc": "CC-BY-3.0 AND MIT",
    "ptwobrussell/Mining-the-Social-Web-2nd-Edition": "BSD-2-Clause-Views",
    "tensorflow/docs": "Apache-2.0 AND MIT",
    "unpingco/Python-for-Signal-Processing": "NOASSERTION",
}


@pytest.mark.parametrize(
    ("text", "licence"),
    [
        (MIT, "MIT"),
        (MIT.upper(), "MIT"),
        (MIT.replace("\n", "\r\n").replace('"', "“"), "MIT"),
        (UNLICENSE, "Unlicense"),
        (f"{MIT}\n----\n{UNLICENSE}", "MIT AND Unlicense"),
        (f"{MIT}\n{MIT}", "MIT"),
        ("SPDX-License-Identifier: apache-2.0 or mit\n", "Apache-2.0 OR MIT"),
        ("SPDX-License-Identifier: nonsense-9.0\n", None),
        ("This book is published under the MIT license, see above.", None),
        (f"{MIT}\n{RESTRICTED}", None),
        ("All rights reserved.", None),
        ("", None),
        ("\0\ud800" * 999, None),
    ],
)
def test_texts(text, licence):
    assert detect(text) == licence


def test_files_of_a_repository():
    assert of_files({}) is None
    assert of_files({"LICENSE": "Ask me."}) == "NOASSERTION"
    assert of_files({"LICENSE-MIT": MIT, "COPYING": UNLICENSE}) == "Unlicense AND MIT"
    assert of_files({"LICENSE": MIT, "LICENSE.txt": MIT, "LICENSE.old": "Ask me."}) == "MIT"
    tag = "SPDX-License-Identifier: Apache-2.0 OR GPL-3.0-only"
    assert of_files({"A": tag, "B": MIT}) == "(Apache-2.0 OR GPL-3.0-only) AND MIT"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("MIT", True),
        ("mit", True),
        ("BSD-3-Clause AND CC-BY-4.0", True),
        ("CC0-1.0", True),
        ("GPL-3.0-only OR MIT", True),
        ("(Apache-2.0 OR GPL-3.0-only) AND MIT", True),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("GPL-2.0-only WITH Classpath-exception-2.0", False),
        ("MIT AND GPL-3.0-only", False),
        ("GPL-3.0", False),
        ("LGPL-2.1-or-later", False),
        ("MPL-2.0", False),
        ("CC-BY-SA-4.0", False),
        ("CC-BY-NC-4.0", False),
        ("NOASSERTION", False),
        ("LicenseRef-unrecognised", False),
        ("MIT OR", False),
        ("", False),
        ("(" * 5_000 + "MIT", False),
    ],
)
def test_permissive_expressions(expression, expected):
    assert is_permissive(expression) is expected


@pytest.mark.parametrize(
    ("licence", "reasons"),
    [
        ("MIT", (None, None, None)),
        (None, ("licence_none", None, None)),
        ("NOASSERTION", ("licence_unrecognised", "licence_unrecognised", None)),
        ("GPL-3.0-only", ("licence_not_permissive", "licence_not_permissive", None)),
    ],
)
def test_policies(make, licence, reasons):
    row = make.row(licence=licence)
    for policy, reason in zip(POLICIES, reasons, strict=True):
        judged = judge(row, policy)
        assert is_allowed(licence, policy) is (reason is None)
        assert (judged.reason if isinstance(judged, Removal) else None) == reason
        if isinstance(judged, Removal):
            assert (judged.step, judged.detail) == ("licences", licence or "no licence is known")


def test_an_unknown_policy_is_a_clear_error(make):
    with pytest.raises(UsageError, match=r"no licence policy 'gpl'.*permissive\+none"):
        judge(make.row(), "gpl")


@pytest.mark.slow
def test_the_licence_files_of_the_shared_corpus(shared_corpus):
    """153 of 162 as stated; see ``DIFFERENT`` for the others."""
    stated = {}
    for line in (shared_corpus / "repos.jsonl").read_bytes().splitlines():
        entry = json.loads(line)
        stated[f"{entry['owner']}/{entry['repo']}"] = entry["licence"]
    texts = {}
    for path in sorted(shared_corpus.glob("0?.tar.zst")):
        with open_packed(path) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                *folders, name = member.name.split("/")
                if len(folders) == 2 and name.upper().startswith(("LICEN", "COPYING")):
                    stream_of_text = archive.extractfile(member)
                    assert stream_of_text is not None
                    text = stream_of_text.read().decode("utf-8", "replace")
                    texts.setdefault("/".join(folders), {})[name] = text
    found = {repo: of_files(files) for repo, files in texts.items()}
    assert len(found) == len(stated) == 162
    assert {repo: each for repo, each in found.items() if each != stated[repo]} == DIFFERENT
    assert all(is_permissive(each) for each in found.values() if each != "NOASSERTION")
