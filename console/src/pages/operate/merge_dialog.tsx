// Another author has changed the agent meanwhile: shows what both have changed, and lets the user choose and save.

import { useState } from "preact/hooks";
import { shortLine } from "../../text/safe.ts";
import { Button, Dialog, Time } from "../../ui/index.ts";
import { mergedWith, mergeMembers, type Choice, type MergeMember } from "./diff.ts";
import { ValueDiff } from "./diff_view.tsx";
import type { Row } from "./section.ts";

export interface MergeState {
  /** The constitution that I began with; null if it is not known. */
  base: Row | null;
  mine: Row;
  theirs: Row;
  version: number;
  by: string;
  /** Seconds since 1970. */
  at: number;
}

export function MergeDialog({ state, onMerge, onClose }: { state: MergeState; onMerge: (merged: Row) => void; onClose: () => void }) {
  const { base, mine, theirs } = state;
  const members = mergeMembers(base, mine, theirs);
  const conflicts = members.filter((each) => each.isConflict);
  const others = members.filter((each) => !each.isConflict);
  const [choices, setChoices] = useState<Record<string, Choice>>({});
  const left = conflicts.filter((each) => !choices[each.member]).length;
  return (
    <Dialog
      title="The agent was changed meanwhile" onClose={onClose} wide
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" disabled={left > 0} onClick={() => onMerge(mergedWith(base, mine, theirs, choices))}>
            Save the merged version
          </Button>
        </>
      }
    >
      <p>
        <bdi>{shortLine(state.by, 60)}</bdi> has made version {state.version} <Time at={new Date(state.at * 1000).toISOString()} />.
        Nothing of yours was saved yet.
      </p>
      {conflicts.length > 0 && (
        <section class="merge-part">
          <h3>Both have changed</h3>
          {conflicts.map((each) => (
            <Conflict key={each.member} member={each} choice={choices[each.member]} onChoose={(choice) => setChoices({ ...choices, [each.member]: choice })} />
          ))}
        </section>
      )}
      {others.length > 0 && (
        <section class="merge-part">
          <h3>One of you has changed</h3>
          {others.map((each) => <Alone key={each.member} member={each} />)}
        </section>
      )}
      {left > 0 && <p class="dim">Choose for {left} more {left === 1 ? "member" : "members"}.</p>}
    </Dialog>
  );
}

function Conflict({ member, choice, onChoose }: { member: MergeMember; choice: Choice | undefined; onChoose: (choice: Choice) => void }) {
  const option = (value: Choice, label: string) => (
    <label class="checkbox">
      <input type="radio" name={`merge-${member.member}`} checked={choice === value} onChange={() => onChoose(value)} />
      <span>{label}</span>
    </label>
  );
  return (
    <fieldset class="merge-member">
      <legend><code>{shortLine(member.member, 80)}</code></legend>
      <ValueDiff before={member.theirs} after={member.mine} labels={["Theirs", "Mine"]} />
      <div class="operate-buttons">{option("theirs", "Take theirs (−)")}{option("mine", "Take mine (+)")}</div>
    </fieldset>
  );
}

function Alone({ member }: { member: MergeMember }) {
  const isMine = JSON.stringify(member.base) === JSON.stringify(member.theirs);
  return (
    <div class="merge-member">
      <p><code>{shortLine(member.member, 80)}</code> <span class="dim">{isMine ? "by you" : "by the other author"}; it is taken.</span></p>
      <ValueDiff before={member.base} after={isMine ? member.mine : member.theirs} labels={["Before", "After"]} />
    </div>
  );
}
