// Check that histories of single objects are linearizable: for each object there is one order of all operations, each
// between its call and its return, in which every read sees the state that the append before it has left.
//
//	linearizability HISTORY
//
// A line of the file is one operation:
//
//	{"client": 3, "object": "a", "call": 17, "return": 42, "kind": "read", "state": "s2"}
//	{"client": 3, "object": "a", "call": 43, "return": 60, "kind": "append", "from": "s2", "state": "s3", "done": true}
//
// An append changes the object only if it is in the state `from`, else it is refused (`done` is false). States have
// names of their own; every object begins with "". It prints the objects whose history is not linearizable, and exits
// with 1 if there are any, with 2 if it cannot tell in time.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

const patience = 2 * time.Minute // for each object

type operation struct {
	Client int    `json:"client"`
	Object string `json:"object"`
	Call   int64  `json:"call"`
	Return int64  `json:"return"`
	Kind   string `json:"kind"`
	From   string `json:"from"`
	State  string `json:"state"`
	Done   bool   `json:"done"`
}

var object = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, _ any) (bool, any) {
		asked := input.(operation)
		switch {
		case asked.Kind == "read":
			return state == asked.State, state
		case asked.Done:
			return state == asked.From, asked.State
		default:
			return state != asked.From, state
		}
	},
}

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	histories, total := map[string][]porcupine.Operation{}, 0
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var op operation
		if err := json.Unmarshal(lines.Bytes(), &op); err != nil {
			log.Fatal(err)
		}
		histories[op.Object] = append(histories[op.Object], porcupine.Operation{
			ClientId: op.Client, Input: op, Call: op.Call, Output: op, Return: op.Return,
		})
		total++
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
	status, names := 0, make([]string, 0, len(histories))
	for name := range histories {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		switch porcupine.CheckOperationsTimeout(object, histories[name], patience) {
		case porcupine.Illegal:
			fmt.Printf("%s: not linearizable, %d operations\n", name, len(histories[name]))
			status = 1
		case porcupine.Unknown:
			fmt.Printf("%s: not known within %s, %d operations\n", name, patience, len(histories[name]))
			status = max(status, 2)
		}
	}
	fmt.Printf("%d operations on %d objects\n", total, len(histories))
	os.Exit(status)
}
