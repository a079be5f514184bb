// Usage: the tokens and the cost of model calls of some days, as a chart by day and as a table, with CSV to download.

import { useMemo, useState } from "preact/hooks";
import { countText, plural } from "../../text/safe.ts";
import { Button, EmptyState, Field, LoadState, Name, Select, Table, toastError, useLoad } from "../../ui/index.ts";
import { BarChart, ShareBar } from "./bars.tsx";
import { formatMoney } from "./formats.ts";
import { Head } from "./head.tsx";
import { call, download } from "./host_call.ts";
import { dayBefore, daysOf, MEASURES, sumBy, totalOf, type Dimension, type Measure, type Sums, type UsageReport } from "./usage.ts";

const DIMENSIONS: readonly Dimension[] = ["agent", "model", "caller", "conversation"];
const MEASURE_WORDS: Record<Measure, string> = { tokens: "Tokens", calls: "Calls", cost: "Cost" };
const MOST_ROWS = 10_000;
const MOST_SHOWN = 200;

/** Of a tenant, or of all tenants with `isHost`. */
export function UsagePage({ isHost }: { isHost: boolean }) {
  const today = new Date().toISOString().slice(0, 10);
  const [from, setFrom] = useState(dayBefore(today, 29));
  const [to, setTo] = useState(today);
  const [by, setBy] = useState<Dimension>(isHost ? "tenant" : "agent");
  const [measure, setMeasure] = useState<Measure>("tokens");
  const path = isHost ? "/v1/admin/usage" : "/v1/usage";
  const query = { from, to, group_by: `day,${by}`, limit: MOST_ROWS };
  const report = useLoad((signal) => call<UsageReport>("GET", path, { query, signal }), [path, from, to, by]);
  const save = () => download(path, `usage-${from}-${to}.csv`, { ...query, format: "csv" }).catch((error: unknown) => toastError(error, "CSV"));

  return (
    <>
      <Head title={isHost ? "Usage of the host" : "Usage"} about="Model calls, their tokens and what they cost. Days are in UTC.">
        <Button small icon="download" onClick={save}>CSV</Button>
      </Head>
      <div class="operate-filter usage-filter">
        <DayInput label="From" value={from} onChange={setFrom} />
        <DayInput label="To" value={to} onChange={setTo} />
        <Select
          label="By" value={by} onChange={setBy}
          options={(isHost ? (["tenant", ...DIMENSIONS] as const) : DIMENSIONS).map((value) => ({ value, title: value }))}
        />
        <Select
          label="Measure" value={measure} onChange={setMeasure}
          options={(Object.keys(MEASURES) as Measure[]).map((value) => ({ value, title: MEASURE_WORDS[value] }))}
        />
      </div>
      <LoadState of={report} text="Summing up…" />
      {report.value && <UsageView report={report.value} by={by} measure={measure} />}
    </>
  );
}

function DayInput({ label, value, onChange }: { label: string; value: string; onChange: (value: string) => void }) {
  return (
    <Field label={label}>
      {(attributes) => (
        <input type="date" class="input" value={value} {...attributes} onChange={(event) => event.currentTarget.value && onChange(event.currentTarget.value)} />
      )}
    </Field>
  );
}

function UsageView({ report, by, measure }: { report: UsageReport; by: Dimension; measure: Measure }) {
  const of = MEASURES[measure];
  const rows = useMemo(() => sumBy(report.rows, by).sort((a, b) => of(b) - of(a)), [report, by, measure]);
  const days = useMemo(() => daysOf(report), [report]);
  const text = (sums: Sums) => (measure === "cost" ? formatMoney(sums.cost, report.currency) : `${countText(of(sums))} ${measure}`);
  const total = totalOf(report.rows);
  if (!report.rows.length) return <EmptyState title="No model was called in these days">Choose other days, or send a message to an agent.</EmptyState>;
  const most = of(rows[0]!) || 1;
  return (
    <>
      <p class="operate-summary">
        {countText(total.calls)} calls, {countText(total.input)} input and {countText(total.output)} output tokens, {formatMoney(total.cost, report.currency)}
        {total.unpriced > 0 && ` without ${plural(total.unpriced, "call")} whose price is not known`}
      </p>
      {report.next_offset !== null && <p class="operate-warning">There are more than {countText(MOST_ROWS)} sums; choose fewer days for whole figures.</p>}
      <BarChart
        bars={days.map((day) => ({ name: day.name, value: of(day), text: text(day) }))}
        label={`${MEASURE_WORDS[measure]} by day from ${report.from} to ${report.to}; the highest day has ${text(days.reduce((a, b) => (of(b) > of(a) ? b : a)))}`}
      />
      <Table
        caption={`Usage by ${by}`} rows={rows.slice(0, MOST_SHOWN)} rowKey={(row) => row.name}
        columns={[
          { title: by.charAt(0).toUpperCase() + by.slice(1), isHeading: true, render: (row) => <Name text={row.name} none="(none)" length={60} /> },
          { title: MEASURE_WORDS[measure], render: (row) => <ShareBar used={of(row)} limit={most} text={text(row)} />, isMinor: true },
          { title: "Calls", isNumber: true, render: (row) => countText(row.calls) },
          { title: "Input", isNumber: true, render: (row) => countText(row.input), isMinor: true },
          { title: "Output", isNumber: true, render: (row) => countText(row.output), isMinor: true },
          { title: "Cost", isNumber: true, render: (row) => formatMoney(row.cost, report.currency) },
        ]}
      />
      {rows.length > MOST_SHOWN && <p class="dim">The first {MOST_SHOWN} of {countText(rows.length)} are shown. The CSV has all.</p>}
      <details class="operate-fold">
        <summary>Days as a table</summary>
        <Table
          caption="Usage by day" rows={days.filter((day) => day.calls)} rowKey={(row) => row.name}
          columns={[
            { title: "Day", isHeading: true, render: (row) => row.name },
            { title: "Calls", isNumber: true, render: (row) => countText(row.calls) },
            { title: "Tokens", isNumber: true, render: (row) => countText(row.input + row.output) },
            { title: "Cost", isNumber: true, render: (row) => formatMoney(row.cost, report.currency) },
          ]}
        />
      </details>
    </>
  );
}
