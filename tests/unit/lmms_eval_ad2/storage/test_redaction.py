"""Keys in stored texts."""

from __future__ import annotations

import pytest

from lmms_eval_ad2.storage.redaction import environment_keys, redacted, without_keys


@pytest.mark.parametrize(
    "text",
    ["hf_KEEPOUTabcdef", "AIzaKEEPOUT-abcdef", "sk-KEEPOUT-1", "sk-proj-KEEPOUT_1", "pw=KEEPOUT", "my_pw = KEEPOUT",
     "password=KEEPOUT", "token=KEEPOUT,x=1", "hf-token: KEEPOUT", "Authorization: Basic KEEPOUT",
     "http://me:KEEPOUT@host/v1?x=1", "https://h/v1?api-key=KEEPOUT", "AKIAKEEPOUT0ABCDEF", "glpat-KEEPOUT-123",
     "xoxb-KEEPOUT-123", "gsk_KEEPOUTabcd", "credentials=KEEPOUT", "eyJKEEPOUTaa.eyJzdWIiOiIxIn0.abc",
     "bearer=KEEPOUT", "Bearer: KEEPOUT", "passphrase=KEEPOUT", "cookie=KEEPOUT", "Set-Cookie: KEEPOUT",
     "cookie: a=1; b=KEEPOUT", "jwt=KEEPOUT",
     "https://h/v1?sig=KEEPOUT", "https://h/b?sv=1&sig=KEEPOUT%3D&se=2", "https://h?X-Amz-Signature=KEEPOUT&x=1",
     "https://h?X-Goog-Credential=KEEPOUT", "Authorization: KEEPOUT", "github_pat=KEEPOUT",
     "use xai-KEEPOUTabcdef0123", "pplx-KEEPOUTabcdef0123", "csk-KEEPOUTabcdef0123", "tvly-KEEPOUTabcdef0123",
     "fw_KEEPOUTabcdef0123", "tgp_v1_KEEPOUTabcdef0123", "ya29.KEEPOUTabcdef", "npm_KEEPOUTabcdef0123",
     "sk_live_KEEPOUTabcdef01", "sk_0123456789KEEPOUTab", "SG.KEEPOUT0123456789a.KEEPOUT0123456789",
     "hvs.KEEPOUT0123456789a",
     "GOCSPX-KEEPOUT012", "xapp-1-A0-KEEPOUT012", "vck_KEEPOUTabcdef0123", "lsv2_pt_KEEPOUT01234567890",
     "123456789:AAKEEPOUT" + "a" * 30, "pypi-AgEKEEPOUT0123", "0123456789abcdef" * 2 + ".KEEPOUT012345678",
     "Authorization: Digest username=u, response=KEEPOUT", "Authorization: Token KEEPOUT",
     'Authorization: AWS4-HMAC-SHA256 Credential=A/2020, Signature="KEEPOUT"',
     "[(b'authorization', b'Bearer KEEPOUT')]", "[(b'x-api-key', b'KEEPOUT')]",
     "[('api-key', 'KEEPOUT'), ('host', 'x')]",
     "{'password': 'with blanks KEEPOUT'}", '{"text": "{\\"api_key\\": \\"a KEEPOUT\\"}"}', "api_key%3DKEEPOUT",
     "api_key=&quot;KEEPOUT&quot;", "api_key => KEEPOUT", "ad2 x --api-key KEEPOUT", "--password KEEPOUT",
     "Incorrect API key provided: KEEPOUT.", "session_id=KEEPOUT", "passcode: KEEPOUT", "https://h/cb?code=KEEPOUT",
     "https://me:a/KEEPOUT@host/v1", "https://m@e:KEEPOUT@host/v1",
     "-----BEGIN RSA PRIVATE KEY-----\nMII\nKEEPOUT\n-----END RSA PRIVATE KEY-----"],
)  # fmt: skip
def test_keys_are_hidden(text: str) -> None:
    assert "KEEPOUT" not in redacted(text) and "REDACTED" in redacted(text)
    assert redacted(redacted(text)) == redacted(text)


@pytest.mark.parametrize(
    "text", ["pretrained=/models/hf_checkpoint,max_new_tokens=512", "tokenizer=/a/b,attn_implementation=eager",
             "pa-rameter and xai-based, pplx-like, fw-up, code=7",
             "https://h/v1?model=sig&code_name=x", "a compatible path: x, dispatch: y",
             "pattern=a,spatial=b,signal=c,compat=d", "fw_bw_ratio_2024_and_more",
             "model=voyage-multimodal-3.5",
             "lmms:qwen2_5_vl,pretrained=Qwen/Qwen2.5-VL-7B-Instruct,batch_size=8", "http://gpu7:8000/v1"],
)  # fmt: skip
def test_other_arguments_stay(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize(
    "text", ["{'x-api-key': 'SECRET', 'host': 'gpu7'}", "[('api-key', 'SECRET'), ('host', 'gpu7')]",
             "api_key=SECRET,host=gpu7",
             '{"Authorization": "Digest a=SECRET, b=SECRET", "host": "gpu7"}', "https://me:SECRET@gpu7:80/v1/x?y=a@b"],
)  # fmt: skip
def test_what_is_beside_a_key_stays(text: str) -> None:
    assert "SECRET" not in redacted(text) and "gpu7" in redacted(text)


@pytest.mark.parametrize(
    "text", ["http://gpu7:8000/v1/@x", "http://gpu7/v1?user=a@b", "Basic rules, basic requirements: x"]
)
def test_addresses_and_words_stay(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize(
    "unit", ["a", "a-", "pa-", "eyJaaaaaaaa-", "://a:b", "key", "key'", "\\", "secret_", "-----BEGIN PRIVATE KEY-----"]
)
def test_long_texts_take_linear_time(unit: str) -> None:
    redacted(unit * 50_000)  # in quadratic time this takes minutes


def test_a_key_that_a_completion_repeats_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "abc123defg")
    monkeypatch.setenv("OTHER_TOKEN", "disabled")
    text = "Your key abc123defg is disabled."
    assert without_keys(text, environment_keys()) == "Your key [REDACTED] is disabled."
    assert without_keys("it is EMPTY", ["EMPTY", ""]) == "it is EMPTY"
