"""OmniDrive for advlm_server.py. Pieced together from its evaluation code, not run here: docs/advlm.md.

Start it in the OmniDrive repository, with ckpts/ filled. Each question is a scene of its own: the endpoint carries
pictures and words, so the car's pose, its bus values and the memory of earlier frames are left at their neutral values.
"""

from __future__ import annotations

import math
import tempfile
import uuid
from pathlib import Path

CONFIG = "projects/configs/OmniDrive/mask_eva_lane_det_vlm.py"
CHECKPOINT = "ckpts/iter_10548.pth"
WIDTH, HEIGHT = 1600, 900
REAR_AXLE_M = 1.4  # CARLA measures from the car's middle, nuScenes from its rear axle
CAMERA_UP_M = 1.6
BUS_VALUES = 13  # what the network's layer of 74 inputs leaves for it; their order is not in the public code
COMMAND = 2
# metres forward and right of the car's middle, yaw in degrees clockwise, horizontal angle of view: Bench2Drive's
MOUNTS = {
    "front": (0.80, 0.0, 0.0, 70.0),
    "front_left": (0.27, -0.55, -55.0, 70.0),
    "front_right": (0.27, 0.55, 55.0, 70.0),
    "back": (-2.0, 0.0, 180.0, 110.0),
    "back_left": (-0.32, -0.55, -110.0, 70.0),
    "back_right": (-0.32, 0.55, 110.0, 70.0),
}


def geometry(name):
    """(intrinsics, ego to camera), 4 x 4 each. Ego: x forward, y left, z up. Camera: x right, y down, z ahead."""
    import numpy as np

    forward, right, yaw, view = MOUNTS[name]
    focal = WIDTH / 2 / math.tan(math.radians(view) / 2)
    inner = np.eye(4)
    inner[:2, :3] = [[focal, 0, WIDTH / 2], [0, focal, HEIGHT / 2]]
    c, s = math.cos(math.radians(yaw)), math.sin(math.radians(yaw))
    outer = np.eye(4)
    outer[:3, :3] = [[-s, -c, 0], [0, 0, -1], [c, -s, 0]]
    outer[:3, 3] = -outer[:3, :3] @ [forward + REAR_AXLE_M, -right, CAMERA_UP_M]
    return inner, outer


def load():
    import importlib

    from mmcv import Config
    from mmcv.parallel import MMDataParallel
    from mmcv.runner import load_checkpoint
    from mmdet.datasets.pipelines import Compose
    from mmdet3d.models import build_model

    importlib.import_module("projects.mmdet3d_plugin")  # registers its models and steps
    cfg = Config.fromfile(CONFIG)
    cfg.model.train_cfg = None
    cfg.model.save_path = tempfile.mkdtemp() + "/"  # the model writes every answer to a file there
    model = build_model(cfg.model, test_cfg=cfg.get("test_cfg"))
    load_checkpoint(model, CHECKPOINT, map_location="cpu")
    steps = Compose(cfg.test_pipeline)
    (asking,) = [step for step in steps.transforms if type(step).__name__ == "LoadAnnoatationVQATest"]
    # Its own questions come from nuScenes' files; ours comes with the request.
    asking.preprocess_vqa = lambda scene: [[{"from": who, "value": scene[who]} for who in ("human", "gpt")]]
    return MMDataParallel(model, device_ids=[0]).eval(), steps, cfg.model.save_path


def answer(images, question, loaded):
    import torch
    from mmcv.parallel import collate

    model, steps, written = loaded
    check_sizes(images)
    key = uuid.uuid4().hex
    with tempfile.TemporaryDirectory() as folder:
        files = [image.save(f"{folder}/{image.name}.{image.media_type[6:]}") for image in images]
        data = collate([steps(scene(files, [image.name for image in images], question, key))], samples_per_gpu=1)
    model.module.test_flag = False  # forget the last scene
    with torch.no_grad():
        output = model(return_loss=False, rescale=True, **data)
    Path(written + key).unlink()
    return output[0]["text_out"][0]["A"][0]


def check_sizes(images):
    """ValueError if a picture has another size than the calibration is for: the projection would be wrong silently."""
    for image in images:
        size = image.pil().size
        if size != (WIDTH, HEIGHT):
            raise ValueError(
                f"picture {image.name}: expected {WIDTH}x{HEIGHT}, for which the calibration is, found "
                f"{size[0]}x{size[1]}; send the profile's size (no --size), or set WIDTH and HEIGHT in omnidrive.py"
            )


def scene(files, names, question, key):
    """What CustomNuScenesDataset.get_data_info gives for one frame."""
    import numpy as np

    views = [geometry(name) for name in names]
    return {
        "sample_idx": key, "scene_token": key, "location": "boston", "human": question, "gpt": "",
        "img_filename": files, "intrinsics": [inner for inner, _ in views],
        "extrinsics": [outer for _, outer in views], "lidar2img": [inner @ outer for inner, outer in views],
        "timestamp": 0.0, "img_timestamp": [0.0] * len(files),
        "ego_pose": np.eye(4), "ego_pose_inv": np.eye(4), "command": COMMAND, "can_bus": np.zeros(BUS_VALUES),
    }  # fmt: skip
