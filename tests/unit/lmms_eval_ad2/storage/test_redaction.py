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
     "fw_KEEPOUTabcdef0123", "tgp_v1_KEEPOUTabcdef0123", "ya29.KEEPOUTabcdef", "npm_KEEPOUTabcdef0123"],
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


def test_a_key_that_a_completion_repeats_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "abc123defg")
    monkeypatch.setenv("OTHER_TOKEN", "disabled")
    text = "Your key abc123defg is disabled."
    assert without_keys(text, environment_keys()) == "Your key [REDACTED] is disabled."
    assert without_keys("it is EMPTY", ["EMPTY", ""]) == "it is EMPTY"
