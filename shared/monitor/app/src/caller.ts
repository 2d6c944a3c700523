// Who the caller is for the service: what its roles do not allow is not offered.
import { useEffect, useState } from "preact/hooks";
import { get, type Schemas } from "./api";
import type { operations } from "./api.gen";

export type Caller = Schemas["Caller"];
export type Operation = keyof operations;

/** me is read once; it is null if the service does not say it, and then refuses what is not allowed. */
let me: Promise<Caller | null> | undefined;

/** useCaller is the caller, undefined until it is known. */
export function useCaller(): Caller | null | undefined {
  const [caller, setCaller] = useState<Caller | null>();
  useEffect(() => {
    me ??= get("/caller").catch(() => {
      me = undefined; // the next view asks again
      return null;
    });
    void me.then(setCaller);
  }, []);
  return caller;
}

/** may says whether the caller may call an operation and, where the request decides, has a role. */
export const may = (caller: Caller | null | undefined, operation: Operation, role?: Caller["roles"][number]): boolean =>
  caller === null || (caller !== undefined && caller.operations.includes(operation) && (!role || caller.roles.includes(role)));
