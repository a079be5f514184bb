"""An image maker with CrewAI: draws what it is told, sends the picture as a file, and changes it when it is told more.

    pip install . "crewai[file-processing]"
    parley serve examples/frameworks/crewai_image.py

Say "A red circle on white"; then, in the same conversation, say "Make it blue". It runs on a real model if
OPENAI_API_KEY, GEMINI_API_KEY or ANTHROPIC_API_KEY is set, which needs CrewAI's extra for it, such as
crewai[google-genai], else on a model with a script. The pictures are drawn with Pillow, which CrewAI brings along.
"""

import json
import os
import re
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import uuid4

from crewai import LLM, Agent, Crew, Task
from crewai.llms.base_llm import BaseLLM
from crewai.tools import tool
from PIL import Image, ImageDraw
from PIL.PngImagePlugin import PngInfo

from parley.adapters.crewai import send_file

IMAGES = Path(os.environ.get("IMAGES", Path(tempfile.gettempdir()) / "crewai-images"))
COLORS = ("red", "green", "blue", "yellow", "orange", "purple", "black", "white")
SHAPES = ("circle", "square")
MODELS = {
    "OPENAI_API_KEY": "openai/gpt-5-mini",
    "GEMINI_API_KEY": "gemini/gemini-2.5-flash",
    "ANTHROPIC_API_KEY": "anthropic/claude-sonnet-4-5",
}


@tool
def generate_image(prompt: str, image_id: str = "") -> str:
    """Draws an image, or changes an earlier one.

    Args:
        prompt: A shape (circle or square), its color, and the color behind it ("on white"), or what is to change.
        image_id: The id of the image to change; empty for a new one.
    """
    drawing = {"shape": "circle", "color": "red", "background": "white"}
    if image_id:
        drawing = read_drawing(image_id)
    words = prompt.lower()
    background = re.search(rf"on ({'|'.join(COLORS)})", words)
    colors = [color for color in COLORS if color in words.replace(background[0] if background else "\0", "")]
    shapes = [shape for shape in SHAPES if shape in words]
    drawing |= {"background": background[1]} if background else {}
    drawing |= {"color": colors[0]} if colors else {}
    drawing |= {"shape": shapes[0]} if shapes else {}
    new_id, picture = uuid4().hex, draw(drawing)
    IMAGES.mkdir(parents=True, exist_ok=True)
    (IMAGES / f"{new_id}.png").write_bytes(picture)
    send_file(picture, f"{new_id}.png", "image/png")
    return f"{new_id} is a {drawing['color']} {drawing['shape']} on {drawing['background']}"


def read_drawing(image_id: str) -> dict[str, str]:
    """What an image shows, which is written in its file."""
    if not re.fullmatch("[0-9a-f]{32}", image_id):
        raise ValueError(f"{image_id!r} is not the id of an image")
    with Image.open(IMAGES / f"{image_id}.png") as image:
        return dict(json.loads(str(image.info["drawing"])))


def draw(drawing: dict[str, str]) -> bytes:
    """A PNG file."""
    image = Image.new("RGB", (256, 256), drawing["background"])
    pen = ImageDraw.Draw(image)
    (pen.ellipse if drawing["shape"] == "circle" else pen.rectangle)((48, 48, 208, 208), fill=drawing["color"])
    file, info = BytesIO(), PngInfo()
    info.add_text("drawing", json.dumps(drawing))
    image.save(file, "PNG", pnginfo=info)
    return file.getvalue()


class ScriptedPainter(BaseLLM):
    """A model for trying it out: draws what the message says, and changes the last image if there is one."""

    def call(self, messages: Any, tools: Any = None, *args: Any, **kwargs: Any) -> Any:
        results = [message["content"] for message in messages if message["role"] == "tool"]
        if results:
            return f"Here it is: {results[-1]}."
        task = str(messages[-1]["content"])
        request, _, history = task.partition("Earlier in this conversation:")
        found = re.search('"(.*?)"', request)
        earlier = re.findall("[0-9a-f]{32}", history)
        arguments = {"prompt": found[1] if found else request, "image_id": earlier[-1] if earlier else ""}
        function = {"name": generate_image.name, "arguments": json.dumps(arguments)}
        return [{"id": "call-1", "type": "function", "function": function}]

    def supports_function_calling(self) -> bool:
        return True

    def get_context_window_size(self) -> int:
        return 100_000


named = next((LLM(model=model) for key, model in MODELS.items() if os.environ.get(key)), None)
painter = Agent(
    role="Image creator",
    goal="Draws images as described, and changes them as told.",
    backstory="You draw with one tool, and always say the id of the image that you have made.",
    llm=named or ScriptedPainter(model="scripted"),
    tools=[generate_image],
)
paint = Task(
    description='Draw this with your tool: "{message}". If it changes an image of this conversation, pass its id.',
    expected_output="One sentence with the id of the image and what it shows.",
    agent=painter,
)
agent = Crew(name="Image maker", agents=[painter], tasks=[paint])
