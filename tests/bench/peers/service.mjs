// The benchmark's work as a service of Restate: one call of a virtual object for each key, which
// calls the block once, and a service that makes all the calls and waits for them.
import * as restate from "@restatedev/restate-sdk";

// The SDK calls it, and Node 20 does not have it.
Promise.withResolvers ??= function () {
  const made = {};
  made.promise = new this((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
};

const device = restate.object({
  name: "device",
  handlers: {
    work: async (ctx, url) =>
      ctx.run("work", async () => {
        const answer = await fetch(url, { method: "POST", body: JSON.stringify({ entity: { type: "device", id: ctx.key } }) });
        return answer.json();
      }),
  },
});

const fleet = restate.service({
  name: "fleet",
  handlers: {
    run: async (ctx, { prefix, n, url }) => {
      const calls = [];
      for (let i = 0; i < n; i++) {
        calls.push(ctx.objectClient(device, `${prefix}-${i}`).work(url));
      }
      const results = await restate.RestatePromise.all(calls);
      return results.filter((r) => r.outcome === "OK").length;
    },
  },
});

const port = await restate.serve({ services: [device, fleet], port: 0 });
console.log(`ready http://127.0.0.1:${port}`);
