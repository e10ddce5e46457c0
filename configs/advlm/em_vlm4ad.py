"""EM-VLM4AD (T5-Base) for advlm_server.py. Written from its code, not run here: docs/advlm.md.

Start it in the EM-VLM4AD repository, with the weights in multi_frame_results/T5-Medium/latest_model.pth.
"""

from __future__ import annotations

import argparse

WEIGHTS = "multi_frame_results/T5-Medium/latest_model.pth"


def load():
    import torch
    from modules.multi_frame_model import DriveVLMT5
    from torchvision import transforms
    from transformers import T5Tokenizer

    model = DriveVLMT5(argparse.Namespace(lm="T5-Base", gpa_hidden_size=128))
    tokenizer = T5Tokenizer.from_pretrained("google-t5/t5-base")
    tokenizer.add_tokens("<")
    model.load_state_dict(torch.load(WEIGHTS, map_location="cpu"))
    # Bytes 0..255 to -1..1, as in its training.
    prepare = transforms.Compose([transforms.Resize((224, 224)), transforms.Normalize((127.5,) * 3, (127.5,) * 3)])
    return model.float().cuda().eval(), tokenizer, prepare


def answer(images, question, loaded):
    import torch
    from torchvision.transforms.functional import pil_to_tensor

    model, tokenizer, prepare = loaded
    views = torch.stack([prepare(pil_to_tensor(image.pil()).float()) for image in images])
    words = tokenizer([f"Question: {question} Answer:"], return_tensors="pt").input_ids
    with torch.no_grad():
        tokens = model.generate(words.cuda(), views.unsqueeze(0).cuda())
    return tokenizer.decode(tokens[0], skip_special_tokens=True)
