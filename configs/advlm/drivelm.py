"""DriveLM's public baseline, LLaMA-Adapter v2, for advlm_server.py. Written from its code, not run here: docs/advlm.md.

Start it in DriveLM/challenge/llama_adapter_v2_multimodal7b, where the package `llama` is. Environment variables:
LLAMA_WEIGHTS, the folder with 7B/ and tokenizer.model; CHECKPOINT, the file that fine-tuning wrote (none is published).
"""

from __future__ import annotations

import os

# What CLIP expects; the baseline's training and demo use the same.
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


def load():
    import llama
    from torchvision import transforms

    model, _ = llama.load(os.environ["CHECKPOINT"], os.environ["LLAMA_WEIGHTS"], llama_type="7B", device="cuda")
    if model is None or isinstance(model, Exception):  # llama.load returns its error instead of raising it
        raise RuntimeError(str(model))
    bicubic = transforms.InterpolationMode.BICUBIC
    steps = [transforms.Resize((224, 224), interpolation=bicubic), transforms.ToTensor()]
    return llama, model.eval(), transforms.Compose([*steps, transforms.Normalize(MEAN, STD)])


def answer(images, question, loaded):
    import torch
    from PIL import Image

    llama, model, prepare = loaded
    # Training reads pictures with OpenCV and leaves them blue first: so they come here too.
    views = [prepare(Image.merge("RGB", image.pil().split()[::-1])) for image in images]
    batch = torch.stack(views).unsqueeze(0).to("cuda")  # questions x views x 3 x 224 x 224
    prompt = llama.format_prompt("<image>\n" + question)
    return model.generate(batch, [prompt], temperature=0.2, top_p=0.1)[0]
