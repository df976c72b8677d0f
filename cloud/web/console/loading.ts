// Lists and things from the API as components use them: loaded, loaded again when they changed (never in a rush), page by page.
import { type Signal, signal, useEffect, useMemo } from "#shared/web/dom.ts";
import { type Answer, get, type Refused } from "./api.ts";
import { whenChanged } from "./state.ts";

const PAUSE_MS = 3_000; // between two looks: what a sandbox's budget of requests can bear

export type Loaded<Data> = {
  data: Signal<Data | undefined>;
  refused: Signal<Refused | undefined>;
  reload(atOnce?: boolean): void;
  end(): void;
};

function loader<Data>(load: () => Promise<Answer<Data>>): Loaded<Data> {
  const data = signal<Data | undefined>(undefined);
  const refused = signal<Refused | undefined>(undefined);
  let timer: ReturnType<typeof setTimeout> | undefined;
  let state: "idle" | "asking" | "resting" | "over" = "idle";
  let again = false;

  async function look(): Promise<void> {
    clearTimeout(timer);
    [state, again] = ["asking", false];
    const answer = await load();
    if (isOver()) return;
    if (answer.refused === undefined) data.value = answer.data;
    refused.value = answer.refused;
    const busy = answer.refused?.fault === "busy";
    again ||= busy;
    state = "resting";
    timer = setTimeout(rested, busy ? Math.max(answer.refused?.retryMs ?? 0, PAUSE_MS) : PAUSE_MS);
  }
  const isOver = () => state === "over";
  function rested(): void {
    state = "idle";
    if (again) void look();
  }
  return {
    data,
    refused,
    reload: (atOnce = false) => {
      if (state === "idle" || (atOnce && state === "resting")) void look();
      else again = true;
    },
    end: () => {
      state = "over";
      clearTimeout(timer);
    },
  };
}

/** Loads now, and again when one of the topics changed, for as long as the view stands. */
function useKept(loaded: Pick<Loaded<unknown>, "reload" | "end">, topics: readonly string[]): void {
  useEffect(() => {
    loaded.reload();
    const leave = whenChanged(topics, () => loaded.reload());
    return () => {
      leave();
      loaded.end();
    };
  }, [loaded]);
}

export function useLoaded<Data>(path: string, topics: readonly string[]): Loaded<Data> {
  const loaded = useMemo(() => loader<Data>(() => get<Data>(path)), [path]);
  useKept(loaded, topics);
  return loaded;
}

export type Page<Item> = { data: Item[]; nextCursor: string | null };
export type List<Item> = Loaded<Page<Item>> & { more(): void };

async function pages<Item>(path: string, count: number): Promise<Answer<Page<Item>>> {
  const all: Item[] = [];
  let cursor: string | null = null;
  for (let page = 0; page < count; page += 1) {
    const next: Answer<Page<Item>> = await get<Page<Item>>(
      cursor === null ? path : `${path}${path.includes("?") ? "&" : "?"}cursor=${cursor}`,
    );
    if (next.refused) return next;
    all.push(...next.data.data);
    cursor = next.data.nextCursor;
    if (cursor === null) break;
  }
  return { data: { data: all, nextCursor: cursor } };
}

/** A list from its newest end; `more` adds a page, and a change is looked for in all that is shown. */
export function useList<Item>(path: string, topics: readonly string[], atFirst = 1): List<Item> {
  const { loaded, more } = useMemo(() => {
    let count = atFirst;
    const loaded = loader<Page<Item>>(() => pages<Item>(path, count));
    const more = () => {
      count += 1;
      loaded.reload(true);
    };
    return { loaded, more };
  }, [path]);
  useKept(loaded, topics);
  return { ...loaded, more };
}
