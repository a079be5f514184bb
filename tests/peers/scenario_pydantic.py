"""What the scenario sees in the objects of a2a-sdk 0.2 and 0.3, which are pydantic models of the same shape."""

import uuid

from a2a.types import (
    DataPart,
    FilePart,
    FileWithBytes,
    FileWithUri,
    Message,
    Part,
    PushNotificationConfig,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskPushNotificationConfig,
    TaskStatusUpdateEvent,
    TextPart,
)


def message(parts, task, context=None):
    ids = {"task_id": task["id"], "context_id": task["context"]} if task else {"context_id": context}
    return Message(message_id=str(uuid.uuid4()), role=Role.user, parts=[part_to_send(part) for part in parts], **ids)


def part_to_send(part):
    if "text" in part:
        return Part(root=TextPart(text=part["text"]))
    if "data" in part:
        return Part(root=DataPart(data=part["data"]))
    about = {"name": part["name"], "mime_type": part["type"]}
    content = FileWithBytes(bytes=part["raw"], **about) if "raw" in part else FileWithUri(uri=part["url"], **about)
    return Part(root=FilePart(file=content))


def seen_part(part):
    match part.root:
        case TextPart(text=text):
            return {"text": text}
        case DataPart(data=data):
            return {"data": data}
        case FilePart(file=file):
            content = {"raw": file.bytes} if isinstance(file, FileWithBytes) else {"url": file.uri}
            return {**content, "name": file.name, "type": file.mime_type}


def seen_text(message):
    return "".join(part.root.text for part in message.parts if part.root.kind == "text") if message else ""


def seen_task(task):
    return {
        "id": task.id,
        "context": task.context_id,
        "state": task.status.state.value,
        "said": seen_text(task.status.message),
        "parts": [seen_part(part) for artifact in task.artifacts or [] for part in artifact.parts],
        "history": [seen_text(message) for message in task.history or []],
    }


def seen_event(event):
    match event:
        case Task():
            return {"task": seen_task(event)}
        case TaskStatusUpdateEvent(status=status, final=final):
            return {"state": status.state.value, "said": seen_text(status.message), "final": final}
        case TaskArtifactUpdateEvent(artifact=artifact, append=append):
            return {"parts": [seen_part(part) for part in artifact.parts], "append": bool(append)}
        case _:
            raise AssertionError(f"No {type(event).__name__} was expected")


def seen_card(card):
    return {
        "name": card.name,
        "version": card.version,
        "skills": [skill.id for skill in card.skills],
        "streaming": card.capabilities.streaming,
        "push": card.capabilities.push_notifications,
    }


def seen_push(config):
    hook = config.push_notification_config
    return {"id": hook.id, "url": hook.url, "token": hook.token}


def task_push(task_id, config):
    return TaskPushNotificationConfig(task_id=task_id, push_notification_config=PushNotificationConfig(**config))
