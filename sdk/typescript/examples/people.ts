import { Question, type Task } from "@archon-mesh/sdk";

/** Ends the attempt with a question. The next one, on any instance, has the answer and the checkpoint. */
export function book(task: Task): string | Question {
  if (!task.inputText) return new Question("Which day?", { checkpoint: JSON.stringify({ offer: 3 }) });
  const { offer } = JSON.parse(Buffer.from(task.checkpoint).toString()) as { offer: number };
  return `Offer ${offer} is booked for ${task.inputText}.`;
}

/** Asks while the attempt keeps its state and its slot. */
export async function remove(task: Task): Promise<string> {
  const { decision } = await task.askQuestion("Delete all files?", { isApproval: true });
  return decision === "approve" ? "deleted" : "kept";
}
