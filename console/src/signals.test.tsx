import { render } from "preact";
import { act } from "preact/test-utils";
import { expect, test } from "vitest";
import { computed, effect, signal, untracked, useSignal } from "./signals.ts";

test("a component follows the signals of its last rendering, until it is gone", async () => {
  const box = document.createElement("div");
  const isOn = signal(true);
  const name = signal("one");
  let renderings = 0;
  function Shown() {
    renderings++;
    return <p>{isOn.value ? name.value : "off"}</p>;
  }
  await act(() => render(<Shown />, box));
  await act(() => void (name.value = "two"));
  expect(box.textContent).toBe("two");
  await act(() => void (isOn.value = false));
  expect([box.textContent, renderings]).toEqual(["off", 3]);
  await act(() => void (name.value = "three"));
  expect(renderings).toBe(3);
  await act(() => render(null, box));
  await act(() => void (isOn.value = true));
  expect([renderings, isOn.followers.size, name.followers.size]).toEqual([3, 0, 0]);
});

test("a parent does not follow what its children read", async () => {
  const box = document.createElement("div");
  const text = signal("a");
  const renderings: string[] = [];
  function Child() {
    renderings.push("child");
    return <b>{text.value}</b>;
  }
  function Parent() {
    renderings.push("parent");
    const own = useSignal(1);
    return <div><Child />{own.value}</div>;
  }
  await act(() => render(<Parent />, box));
  await act(() => void (text.value = "b"));
  expect([box.textContent, renderings]).toEqual(["b1", ["parent", "child", "child"]]);
});

test("a computed value is the same until one of its signals changes", () => {
  const one = signal(1);
  const other = signal(1);
  const list = computed(() => [one.value]);
  const first = list.value;
  other.value = 2;
  expect(list.value).toBe(first);
  one.value = 2;
  expect([list.value, list.peek()]).toEqual([[2], [2]]);
});

test("an effect runs again with every change, also of computed values, until it is ended", () => {
  const count = signal(1);
  const ignored = signal(0);
  const double = computed(() => count.value * 2);
  const seen: number[] = [];
  const end = effect(() => void seen.push(double.value + untracked(() => ignored.value)));
  count.value = 2;
  count.value = 2;
  ignored.value = 10;
  count.value = 3;
  end();
  count.value = 5;
  expect(seen).toEqual([2, 4, 16]);
});

test("an effect that sets what it reads runs once", () => {
  const count = signal(1);
  let runs = 0;
  effect(() => {
    runs++;
    count.value = count.value + 1;
  });
  expect([runs, count.value]).toEqual([1, 2]);
});
