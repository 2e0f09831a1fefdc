package topology

import (
	"fmt"
	"slices"
)

// CheckLock compares the plan with the lock of an earlier one of the same application, and returns what has changed: first what has
// gone or is another one, then what is new.
func (p *Plan) CheckLock(old Lock) Changes {
	now := p.Lock()
	var all Changes
	add := func(v Verdict, orphan, name, format string, args ...any) {
		all = append(all, Change{v, name, fmt.Sprintf(format, args...), orphan})
	}
	if old.App != now.App {
		add(Destructive, "", "application", "it was %q and is %q, so that offsets, state and repartition topics of the first would be left behind: keep the name, or begin anew without the old lock", old.App, now.App)
		return all
	}
	p.checkStores(old, now, add)
	p.checkRepartitions(old, now, add)
	checkSources(old, now, add)
	return all
}

// CheckState is CheckLock where there is no lock, but the names of stores are known that hold state.
func (p *Plan) CheckState(held []string) Changes {
	var all Changes
	var empty []string
	for _, st := range p.stores {
		if !slices.Contains(held, st.Name) {
			empty = append(empty, st.Name)
		}
	}
	for _, name := range held {
		if slices.ContainsFunc(p.stores, func(st StoreSpec) bool { return st.Name == name }) || slices.Contains(p.retired, name) {
			continue
		}
		topic := changelogTopic(p.app, name)
		all = append(all, Change{Destructive, fmt.Sprintf("store %q", name),
			fmt.Sprintf("it holds state, and the plan has none of that name, so that its changelog topic %s would be left behind%s", topic, wayOut(name, empty)), topic})
	}
	return all
}

// adder adds a change.
type adder func(v Verdict, orphan, name, format string, args ...any)

func (p *Plan) checkStores(old, now Lock, add adder) {
	for _, was := range old.Stores {
		name := fmt.Sprintf("store %q", was.Name)
		i := slices.IndexFunc(now.Stores, func(s LockedStore) bool { return s.Name == was.Name })
		if i < 0 {
			if slices.Contains(p.retired, was.Name) {
				add(Compatible, was.Topic, name, "it was retired")
				continue
			}
			add(Destructive, was.Topic, name, "the plan has no state of that name any more, and its changelog topic %s would be left behind%s",
				was.Topic, wayOut(was.Name, renamed(now.Stores, old.Stores, func(s LockedStore) (string, bool) {
					return s.Name, s.Operator == was.Operator && s.Key == was.Key && s.Value == was.Value
				})))
			continue
		}
		is := now.Stores[i]
		switch {
		case is.Key != was.Key:
			add(NeedsMigration, "", name, "its keys were encoded as %s and are as %s: they lie elsewhere%s", was.Key, is.Key, another)
		case is.Value != was.Value:
			add(NeedsMigration, "", name, "its values were encoded as %s and are as %s%s", was.Value, is.Value, another)
		case is.Operator != was.Operator:
			add(NeedsMigration, "", name, "it was the state of %s and is that of %s%s", was.Operator, is.Operator, another)
		}
	}
	for _, is := range now.Stores {
		if !slices.ContainsFunc(old.Stores, func(s LockedStore) bool { return s.Name == is.Name }) {
			add(Compatible, "", fmt.Sprintf("store %q", is.Name), "it is new, and begins empty")
		}
	}
}

// another is what can be done about state that is encoded in another way.
const another = ". If what is stored can be read all the same, accept the change by writing the new lock over the old one; otherwise give it another name, and the old one to Retire"

func (p *Plan) checkRepartitions(old, now Lock, add adder) {
	for _, was := range old.Repartitions {
		name := fmt.Sprintf("repartition topic of Rekey %q", was.Name)
		i := slices.IndexFunc(now.Repartitions, func(s LockedRepartition) bool { return s.Name == was.Name })
		if i < 0 {
			if slices.Contains(p.retired, was.Name) {
				add(Compatible, was.Topic, name, "it was retired")
				continue
			}
			add(Destructive, was.Topic, name, "the plan has none of that name any more, and what %s holds that was not processed would be left behind%s",
				was.Topic, wayOut(was.Name, renamed(now.Repartitions, old.Repartitions, func(s LockedRepartition) (string, bool) {
					return s.Name, s.Key == was.Key && s.Value == was.Value
				})))
			continue
		}
		is := now.Repartitions[i]
		const drain = ". Stop what feeds it until its lag is 0, so that nothing of the old kind is left, and accept the change by writing the new lock over the old one"
		switch {
		case is.Key != was.Key:
			add(NeedsMigration, "", name, "its keys were encoded as %s and are as %s%s", was.Key, is.Key, drain)
		case is.Value != was.Value:
			add(NeedsMigration, "", name, "its values were encoded as %s and are as %s%s", was.Value, is.Value, drain)
		case is.Partitions != was.Partitions:
			add(NeedsMigration, "", name, "its Partitions was %d and is %d (0 is as its sources have): keys move away from their state. Take another name for the Rekey and for the state behind it, and the old ones to Retire", was.Partitions, is.Partitions)
		}
	}
}

func checkSources(old, now Lock, add adder) {
	for _, was := range old.Sources {
		name := "source " + was.Topic
		i := slices.IndexFunc(now.Sources, func(s LockedSource) bool { return s.Topic == was.Topic })
		if i < 0 {
			add(Compatible, "", name, "it is not read any more; the group's offsets of it stay for as long as the brokers keep them")
			continue
		}
		is := now.Sources[i]
		const declared = ". If it was the declaration that was wrong, accept the change by writing the new lock over the old one; if others write the topic now, put Repartition in front of the state"
		switch {
		case is.Key != was.Key && is.Partitioner != "":
			add(NeedsMigration, "", name, "its keys were encoded as %s and are as %s, and feed state%s", was.Key, is.Key, declared)
		case is.Partitioner != was.Partitioner && is.Partitioner != "" && was.Partitioner != "":
			add(NeedsMigration, "", name, "it was partitioned by %s and is by %s: keys lie elsewhere than their state%s", was.Partitioner, is.Partitioner, declared)
		}
	}
	for _, is := range now.Sources {
		if !slices.ContainsFunc(old.Sources, func(s LockedSource) bool { return s.Topic == is.Topic }) {
			add(Compatible, "", "source "+is.Topic, "it is new, and begins at its earliest record")
		}
	}
}

// renamed returns the names of what is new and like what has gone.
func renamed[T any](now, old []T, like func(T) (name string, ok bool)) []string {
	var names []string
	for _, is := range now {
		name, ok := like(is)
		if ok && !slices.ContainsFunc(old, func(was T) bool {
			n, _ := like(was)
			return n == name
		}) {
			names = append(names, name)
		}
	}
	return names
}

// wayOut says how to go on when something of a name has gone, and names of the same kind have come.
func wayOut(name string, came []string) string {
	text := ". "
	switch len(came) {
	case 0:
		text += fmt.Sprintf("If it was renamed, put Adopt(%q, \"new name\") on the Builder", name)
	default:
		text += fmt.Sprintf("If it was renamed to %q, which is new, put Adopt(%q, %q) on the Builder", came[0], name, came[0])
	}
	return text + fmt.Sprintf("; if it is given up, Retire(%q)", name)
}
