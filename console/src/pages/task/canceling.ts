// Canceling a task, which asks first.

import { cancelTask } from "../../a2a/client.ts";
import { confirm, toast, toastError } from "../../ui/index.ts";

/** Ask the user, then the agent. True if the agent has canceled the task. */
export async function askToCancel(url: string, id: string): Promise<boolean> {
  const text = "The agent is asked to stop. What it has done so far stays.";
  if (!(await confirm({ title: "Cancel this task?", text, action: "Cancel the task", isDangerous: true }))) return false;
  try {
    await cancelTask(url, id);
    toast("The task was canceled.");
    document.getElementById("page-title")?.focus(); // the button that had the focus goes
    return true;
  } catch (error) {
    toastError(error, "The task was not canceled");
    return false;
  }
}
