// Lists and things from the API as components use them: loaded, loaded again when they changed (never in a rush), page by page.
import { type Signal, signal, useEffect, useMemo } from "#shared/web/dom.ts";
import { type Answer, get, type Refused } from "./api.ts";
import { whenChanged } from "./state.ts";

const PAUSE_MS = 3_000; // between two looks, for each page of them: what a sandbox's budget of requests can bear

export type Loaded<Data> = {
  data: Signal<Data | undefined>;
  refused: Signal<Refused | undefined>;
  reload(atOnce?: boolean): void;
  end(): void;
};

function loader<Data>(load: () => Promise<Answer<Data>>, pages = () => 1): Loaded<Data> {
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
    timer = setTimeout(rested, busy ? Math.max(answer.refused?.retryMs ?? 0, PAUSE_MS) : PAUSE_MS * pages());
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
export type List<Item> = Loaded<Page<Item>> & { more(): void; isGoing: Signal<boolean> };

/** A walk from the first page on. Where the cloud can't answer for a moment the next one goes on from there: all at once may be more than the budget. */
function walk<Item>(path: string) {
  let [all, cursor, pages]: [Item[], string | null, number] = [[], null, 0];
  const end = () => {
    const walked = { data: { data: all, nextCursor: cursor }, pages };
    [all, cursor, pages] = [[], null, 0];
    return walked;
  };
  return async (most: number): Promise<Answer<Page<Item>> & { pages?: number }> => {
    while (pages < most) {
      const next: Answer<Page<Item>> = await get<Page<Item>>(
        cursor === null ? path : `${path}${path.includes("?") ? "&" : "?"}cursor=${cursor}`,
      );
      if (next.refused && next.refused.fault !== "busy") end();
      if (next.refused) return next;
      all.push(...next.data.data);
      cursor = next.data.nextCursor;
      pages += 1;
      if (cursor === null) break;
    }
    return end();
  };
}

/** A list from its newest end; `more` adds a page, and a change is looked for in all that is shown. */
export function useList<Item>(path: string, topics: readonly string[], atFirst = 1): List<Item> {
  const { loaded, ...further } = useMemo(() => {
    let count = atFirst;
    const isGoing = signal(false);
    let walked = 1;
    const look = walk<Item>(path);
    const loaded = loader<Page<Item>>(
      async () => {
        const most = count;
        const answer = await look(most);
        walked = answer.pages ?? walked;
        if (most === count && answer.refused?.fault !== "busy") isGoing.value = false;
        return answer;
      },
      () => walked,
    );
    const more = () => {
      isGoing.value = true;
      count += 1;
      loaded.reload(true);
    };
    return { loaded, more, isGoing };
  }, [path]);
  useKept(loaded, topics);
  return { ...loaded, ...further };
}
