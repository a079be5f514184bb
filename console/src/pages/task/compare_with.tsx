// Choosing the task to compare another one with: the newest of the same agent, or any by its id.

import { useState } from "preact/hooks";
import { api } from "../../api/http.ts";
import type { TaskPage, TaskRow } from "../../api/types.ts";
import { links, navigate } from "../../router.ts";
import { shortLine } from "../../text/safe.ts";
import { Button, Dialog, Problem, Progress, StateBadge, TextInput, Time, useLoad } from "../../ui/index.ts";

const SHOWN = 20;

export function CompareWith({ row, onClose }: { row: TaskRow; onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const { value, error } = useLoad(
    (signal) => api.get<TaskPage>("/tasks", { query: { agent: row.agent, limit: SHOWN + 1 }, signal }), [row.agent],
  );
  const go = (agent: string, id: string) => {
    onClose();
    navigate(links.compare(`${row.agent}/${row.id}`, `${agent}/${id}`));
  };
  const wanted = typed.trim();
  const others = value?.tasks.filter((each) => each.id !== row.id).slice(0, SHOWN);
  return (
    <Dialog title="Compare with" onClose={onClose}>
      <form
        class="row compare-id"
        onSubmit={(event) => {
          event.preventDefault();
          if (wanted) go(row.agent, wanted);
        }}
      >
        <div class="grow"><TextInput label="Id of a task" isCode value={typed} onInput={setTyped} /></div>
        <Button type="submit" disabled={!wanted}>Compare</Button>
      </form>
      {error !== null && <Problem error={error} />}
      {!others && error === null && <Progress text="Loading tasks…" />}
      {others?.length === 0 && <p class="dim">The agent has no other task.</p>}
      {others && others.length > 0 && (
        <ul class="plain compare-choice">
          {others.map((each) => (
            <li key={each.id}>
              <button type="button" onClick={() => go(each.agent, each.id)}>
                <bdi class="cut">{shortLine(each.title, 60) || each.id}</bdi> <StateBadge state={each.state} /> <Time at={each.updated_at} />
              </button>
            </li>
          ))}
        </ul>
      )}
    </Dialog>
  );
}
