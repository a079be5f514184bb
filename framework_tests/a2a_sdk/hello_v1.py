"""The hello world of a2a-sdk 1.x, and its agent with tasks, as its samples write them: nothing here knows Parley."""

from a2a.helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import TaskState
from a2a.utils.errors import UnsupportedOperationError


class HelloWorldAgentExecutor(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        await event_queue.enqueue_event(new_text_message("Hello World"))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise UnsupportedOperationError


class CurrencyAgentExecutor(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        query = context.get_user_input()
        task = context.current_task
        if not task:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.update_status(
            TaskState.TASK_STATE_WORKING,
            updater.new_agent_message([new_text_part("Looking up the exchange rates...")]),
        )
        if " in " not in query and len(query.split()) > 1:
            await updater.update_status(
                TaskState.TASK_STATE_INPUT_REQUIRED,
                updater.new_agent_message([new_text_part("To which currency?")]),
            )
            return
        await updater.add_artifact([new_text_part(f"92 {query.split()[-1]}")], name="conversion_result")
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise UnsupportedOperationError
