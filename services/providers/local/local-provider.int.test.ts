import { describeProvider } from "../provider.contract.ts";
import { openShellGuests } from "./shell-guest.ts";

describeProvider("local", () => openShellGuests());
