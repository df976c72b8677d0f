// The page: its frame, who is signed in, and the view that the address names.
import { classes, effect, h, render, useEffect, useRef, type View } from "#shared/web/dom.ts";
import { followScript, isOld, renew } from "#shared/web/upgrade.ts";
import { language, words } from "./language.ts";
import { isStillIn, live, place, resume, session, signOut } from "./state.ts";
import { Attention } from "./views/attention.ts";
import { Audit } from "./views/audit.ts";
import { Imports } from "./views/imports.ts";
import { JobView } from "./views/job.ts";
import { Jobs } from "./views/jobs.ts";
import { Overview } from "./views/overview.ts";
import { Passports } from "./views/passports.ts";
import { ProductView } from "./views/product.ts";
import { Products } from "./views/products.ts";
import { SignIn } from "./views/sign-in.ts";
import { StationView } from "./views/station.ts";
import { Stations } from "./views/stations.ts";
import { Webhooks } from "./views/webhooks.ts";

/** Views by their word in the address; `one` shows a single thing of them. */
const views = {
  overview: { all: Overview, one: undefined },
  jobs: { all: Jobs, one: JobView },
  attention: { all: Attention, one: undefined },
  stations: { all: Stations, one: StationView },
  products: { all: Products, one: ProductView },
  passports: { all: Passports, one: undefined },
  webhooks: { all: Webhooks, one: Webhooks },
  imports: { all: Imports, one: Imports },
  audit: { all: Audit, one: undefined },
} as const satisfies Record<string, { all: View<{ id?: string }>; one: View<{ id: string }> | undefined }>;
type Name = keyof typeof views;
const names = Object.keys(views) as Name[];
const viewNow = (): Name => names.find((name) => name === place.value.view) ?? "overview";

const Languages = () =>
  h(
    "select",
    { "aria-label": words().language, onChange: (event: Event) => language.choose((event.currentTarget as HTMLSelectElement).value) },
    language.tables.map(({ code, name }) => h("option", { key: code, value: code, selected: code === language.code(), lang: code }, name)),
  );

const LiveSign = () =>
  h(
    "span",
    { class: `live ${live.state.value}`, role: "status" },
    h("span", { class: "dot", "aria-hidden": "true" }),
    words().live[live.state.value],
  );

const Header = () =>
  h(
    "header",
    { class: "top" },
    h("a", { class: "brand", href: "#/overview" }, words().product),
    h("span", { class: "tenant" }, session.value ? h("bdi", null, session.value.tenant.name) : words().console),
    session.value?.tenant.sandbox && h("span", { class: "badge warn sandbox" }, words().sandbox),
    h("span", { class: "space" }),
    session.value && h(LiveSign, null),
    h(Languages, null),
    session.value && h("button", { type: "button", class: "quiet-button", onClick: () => void signOut() }, words().signIn.out),
    session.value &&
      h("p", { class: classes("still-in", isStillIn.value && "notice bad"), role: "alert" }, isStillIn.value && words().signIn.stillIn),
    session.value &&
      h(
        "div",
        { class: classes("upgraded", isOld.value && "notice warn"), role: "status" },
        isOld.value && [words().upgraded, " ", h("button", { type: "button", key: "renew", onClick: renew }, words().renew)],
      ),
  );

function Nav({ chosen }: { chosen: Name }) {
  const nav = useRef<HTMLElement>(null);
  useEffect(() => nav.current?.querySelector("[aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" }), [chosen]);
  return h(
    "nav",
    { class: "views", "aria-label": words().nav.label, ref: nav },
    names.map((name) => h("a", { key: name, href: `#/${name}`, "aria-current": name === chosen ? "page" : undefined }, words().nav[name])),
  );
}

let isFirst = true;
/** Who doesn't see that another view has come is told of it; another language moves nobody. */
function useArrival(title: string, at: string) {
  const main = useRef<HTMLElement>(null);
  useEffect(() => {
    document.title = `${title} · ${words().product}`;
  }, [title]);
  useEffect(() => {
    if (!isFirst) main.current?.querySelector<HTMLElement>("h1")?.focus();
    isFirst = false;
    main.current?.scrollTo(0, 0);
  }, [at]);
  return main;
}

function Door() {
  const main = useArrival(words().signIn.title, "");
  return h("main", { id: "content", ref: main }, h(SignIn, null));
}

function Main() {
  const name = viewNow();
  const { id } = place.value;
  const main = useArrival(words().nav[name], `${name}/${id ?? ""}`);
  const { all, one } = views[name];
  return h("main", { id: "content", ref: main, key: `${name}/${id ?? ""}` }, id !== undefined && one ? h(one, { id }) : h(all, null));
}

function Page() {
  if (!session.value)
    return h(
      "div",
      { class: "page signed-out" },
      h(Header, null),
      session.value === null
        ? h(Door, null)
        : h("main", { id: "content" }, h("p", { class: "empty", role: "status" }, words().common.loading)),
    );
  return h(
    "div",
    { class: "page" },
    h("a", { class: "skip", href: "#content", onClick: skip }, words().skip),
    h(Header, null),
    h(Nav, { chosen: viewNow() }),
    h(Main, null),
  );
}

/** The fragment is the page's address: skipping must not change it. */
function skip(event: Event): void {
  event.preventDefault();
  document.querySelector<HTMLElement>("main h1")?.focus();
}

/** Held down, it would press again as soon as there is an answer. */
document.addEventListener("keydown", (event) => {
  if (event.repeat && event.key === "Enter" && (event.target as Element).closest("button")) event.preventDefault();
});

const root = document.querySelector("#console");
if (!root) throw new Error("the page has no place for the console");
render(h(Page, null), root);
void resume();

const hasTyped = (): boolean => [...document.querySelectorAll("input")].some(({ type, value }) => type !== "radio" && value !== "");
const look = followScript("/console/app.js", () => live.state.value === "live" && !hasTyped());
effect(() => {
  if (live.state.value === "live") void look();
});
