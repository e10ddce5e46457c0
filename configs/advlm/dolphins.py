"""Dolphins for advlm_server.py. Written from its code, not run here: docs/advlm.md.

Start it in the Dolphins repository, where inference.py is. The checkpoint (gray311/Dolphins) and the language model
(anas-awadalla/mpt-7b) come from the Hugging Face hub at the first start.
"""

from __future__ import annotations

END = 50277  # <|endofchunk|>, as Bench2ADVLM's public code sets it


def load():
    from inference import load_pretrained_modoel  # the repository's own spelling

    model, prepare, tokenizer = load_pretrained_modoel()
    tokenizer.eos_token_id = tokenizer.pad_token_id = END
    return model.eval(), prepare, tokenizer


def answer(images, question, loaded):
    import torch

    model, prepare, tokenizer = loaded
    frames = torch.stack([prepare(image.pil()) for image in images])
    words = tokenizer([f"USER: <image> is a driving video. {question} GPT:<answer>"], return_tensors="pt")
    with torch.no_grad():
        tokens = model.generate(
            vision_x=frames[None, None].half().cuda(),  # batch x clips x frames x 3 x height x width
            lang_x=words["input_ids"].cuda(),
            attention_mask=words["attention_mask"].cuda(),
            num_beams=3, max_new_tokens=512, do_sample=False, no_repeat_ngram_size=3, early_stopping=True,
        )  # fmt: skip
    text = tokenizer.batch_decode(tokens.cpu())[0]
    return text.rpartition("<answer>")[2].partition("<|endofchunk|>")[0].strip()
