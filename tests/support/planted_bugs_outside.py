"""Bugs outside the operators, each as one change of one place, for fast tests to find (`tests/properties/test_planted_bugs_outside.py`).

They are about rules over two of something (keep times, lots, quotas, documents, epochs, asymmetric distances) and about exceptional states
(silent, refused, ended, a short write, a reused process id), for tests tend to use one of each in its ordinary state.
"""

from __future__ import annotations

from tests.support.planted_bugs import Bug

_STATE, _BALANCE, _CLIENTS = "orchestrator/state", "orchestrator/balance", "driver/streams"
_CLUSTER_STATE = "orchestrator/state/test_cluster_state.py"
_MOVES = "orchestrator/state/test_moves.py"
_BLAME = "orchestrator/state/test_blame.py"
_PLACE = "cep/plan/test_place.py"
_PUBLISHER_CORE = "driver/streams/test_publisher_core.py"
_NUMBERING, _READERS = "driver/streams/test_numbering.py", "driver/streams/test_readers.py"
_SUBSCRIPTION_CORE = "driver/streams/test_subscription_core.py"
_FOLLOWING = "driver/streams/test_following_core.py"
_IM_CLIENTS = "instance_manager/clients/test_clients.py"
_REDIRECTS = "instance_manager/clients/test_redirects.py"
_SOCKETS = "cep/transport/test_sockets.py"
_COALESCING = "cep/transport/test_coalescing.py"
_REGISTRY = "orchestrator/test_registry.py"
_SPARK = "driver/spark/test_spark_queries.py"

_GROWTH, _DOORS = "cep/model/test_growth.py", "instance_manager/clients/test_doors.py"
_TIME_TEXT, _TIMES = "cep/compile/chain/time_text.py", "cep/compile/test_time_text.py"

OUTSIDE_BUGS = (
    # instants as text
    Bug("parse_time takes a text that goes on", _TIME_TEXT, "good and there and at == stop", "good and there", (_TIMES,)),
    Bug(
        "a day of the year runs into the next year",
        _TIME_TEXT,
        "if days > days_of(year_, 12, 31):",
        "if day_in_year > 366:",
        (_TIMES,),
    ),
    Bug(
        "a year before 0 is written without its sign",
        _TIME_TEXT,
        "        data[at] = 45\n",
        "        data[at] = 48\n",
        (_TIMES,),
    ),
    # streams that grow
    Bug(
        "a query of before takes columns from a stream that has grown",
        "cep/model/growth.py",
        "return given if len(given.schema.fields) > len(known.schema.fields) else known",
        "return given",
        (_GROWTH, _CLUSTER_STATE),
    ),
    Bug(
        "a column that may not be NULL can be left out",
        "cep/model/growth.py",
        "enumerate(known.fields[shared:], shared):",
        "enumerate(known.fields[:0], shared):",
        (_GROWTH,),
    ),
    Bug(
        "columns that a query does not know get in",
        "instance_manager/clients/doors.py",
        "columns = {f.name: come[f.name]",
        "columns = come | {f.name: come[f.name]",
        (_DOORS,),
    ),
    Bug(
        "a publisher comes to the new place by the query's columns",
        "instance_manager/clients/redirects.py",
        "hosted, entry, known, endpoint, door_of(entry.format, document))",
        "hosted, entry, known, endpoint)",
        (_REDIRECTS,),
    ),
    Bug(
        "a publisher that grows forgets its numbers",
        f"{_CLIENTS}/publisher_core.py",
        "Header(wire.OPEN, r.entry, r.sequence, record=r.credit.sent), body)",
        "Header(wire.OPEN, r.entry), body)",
        (_PUBLISHER_CORE,),
    ),
    Bug(
        "the fast path takes messages by the columns of the query",
        "instance_manager/fast_path/fast_path.py",
        "publisher.inbox, here.door.sent, entry.account",
        "publisher.inbox, entry.format, entry.account",
        ("instance_manager/fast_path/test_fast_path.py",),
    ),
    Bug(
        "replicas are chosen by chance where a publisher does not know the key",
        f"{_CLIENTS}/published_rows.py",
        "f.name: nulls(f.type, written.rows) for f",
        "f.name: replace(nulls(f.type, written.rows), valid=None) for f",
        ("driver/streams/test_publisher.py",),
    ),
    Bug(
        "REST never learns of a new column",
        "driver/gateway.py",
        "        if not renew(publisher):\n            raise\n",
        "        raise\n",
        ("cluster/test_streams_that_grow.py",),
    ),
    # an instance that moves twice
    Bug(
        "a second move is not listened for before the first is heard of",
        "cep/dataflow/movement/movement.py",
        "if before in input_.inboxes or before in input_.switches.values():",
        "if before in input_.inboxes:",
        ("cep/dataflow/movement/test_instance_move.py",),
    ),
    # keep times, lots, quotas, and other rules that once survived the suite
    Bug(
        "a query that is over is kept for the shortest time that a subscriber asked for",
        f"{_STATE}/deployments.py",
        "return max((s.keep_s for s in",
        "return min((s.keep_s for s in",
        (_CLUSTER_STATE,),
    ),
    Bug(
        "a move does not free its source",
        f"{_STATE}/cluster_model.py",
        "self._hosting.subtract({move.source: 1})",
        "self._hosting.subtract({move.source: 0})",
        (_MOVES,),
    ),
    Bug(
        "an instance that has ended blocks a move",
        f"{_STATE}/moves.py",
        '(status.step >= move.step or status.state == "ended")',
        "status.step >= move.step",
        (_MOVES,),
    ),
    Bug(
        "an instance without rows weighs nothing",
        f"{_BALANCE}/load.py",
        "out=np.full(len(cpu), mean)",
        "out=np.zeros(len(cpu))",
        ("orchestrator/balance/test_load.py",),
    ),
    Bug(
        "a reused process id is taken for the living leader",
        "orchestrator/election.py",
        "_born(self.pid) != self.born",
        "_born(self.pid) is None",
        ("orchestrator/test_election.py",),
    ),
    Bug(
        "the fast path forgets where rows of a query begin",
        "instance_manager/fast_path/fast_path.py",
        " or source.since > MIN_TIME",
        "",
        ("instance_manager/fast_path/test_fast_path.py",),
    ),
    Bug(
        "the last word of a publisher that is refused after a move is lost",
        "instance_manager/clients/redirects.py",
        "            source.finish(last.last, last.others)",
        "            source.finish(False, last.others)",
        (_REDIRECTS,),
    ),
    Bug(
        "a silent client loses all subscriptions with its first",
        "instance_manager/clients/peers.py",
        "if keep_s < silent_s]",
        "if min(self.subscriptions.values()) < silent_s]",
        (_IM_CLIENTS, "instance_manager/clients/test_peers.py"),
    ),
    Bug(
        "a query has the last row that a publisher had sent before it",
        "cep/dataflow/sources/published.py",
        "min(sent_until, MAX_TIME - 1) + 1 if",
        "min(sent_until, MAX_TIME - 1) if",
        ("cep/dataflow/sources/test_published_source.py",),
    ),
    Bug(
        "a query has the last row that another had put out before it",
        "cep/dataflow/sources/query_source.py",
        "self.since = max(self.since, sent_until + 1 if",
        "self.since = max(self.since, sent_until if",
        ("cep/dataflow/sources/test_query_source.py",),
    ),
    Bug(
        "a write that was cut short is taken for done",
        "cep/world/store.py",
        "left = left[file.append(left) :]",
        "file.append(left)\n        left = left[len(left) :]",
        ("cep/dataflow/outputs/test_conformance.py",),
    ),
    Bug(
        "the grain of watermarks forgets a delay",
        "cep/model/operators/delay.py",
        "return gcd(below, self.by) if below else 0",
        "return below",
        ("cep/plan/test_needed.py", "cep/dataflow/operators/test_delay.py"),
    ),
    Bug(
        "only the innermost quota of control groups counts",
        "cep/machine.py",
        "return min((quota for quota in quotas if quota is not None), default=None)",
        "return next((quota for quota in quotas if quota is not None), None)",
        ("cep/test_machine.py",),
    ),
    Bug(
        "a publisher stamps its batches without the disorder",
        f"{_CLIENTS}/numbering.py",
        "reader.credit.spend(size)\n        watermark = reader.watermark = stamp_of(self.max_time, self.disorder)",
        "reader.credit.spend(size)\n        watermark = reader.watermark = stamp_of(self.max_time, 0)",
        (_NUMBERING, _PUBLISHER_CORE),
    ),
    Bug(
        "a publisher stamps what has no rows without the disorder",
        f"{_CLIENTS}/numbering.py",
        "watermark = reader.watermark = stamp_of(self.max_time, self.disorder)\n        reader.sequence += 1",
        "watermark = reader.watermark = stamp_of(self.max_time, 0)\n        reader.sequence += 1",
        (_NUMBERING, _PUBLISHER_CORE),
    ),
    Bug(
        "a subscriber takes another query of the name for its own",
        f"{_CLIENTS}/subscription_core.py",
        ' or answer.get("epoch", self.epoch) != self.epoch:',
        ":",
        (_SUBSCRIPTION_CORE,),
    ),
    Bug(
        "what was to be looked at before a move is compared with what is behind it",
        f"{_BALANCE}/instances.py",
        "self._resting[where] = RESTS\n        self._looks.clear()",
        "self._resting[where] = RESTS",
        (_MOVES,),
    ),
    Bug(
        "of queries that are deployed at once none knows the streams of those before it",
        "orchestrator/rest/many.py",
        "known |= {stream.name: stream for stream in query.streams if stream.name not in known}",
        "known |= {}",
        ("orchestrator/rest/test_many.py",),
    ),
    Bug(
        "the rise of latency is judged by two thirds of the stretch",
        "hibench/searching/steady.py",
        "created >= stretch.end_us - third]",
        "created >= stretch.start_us + third]",
        ("hibench/test_search.py",),
    ),
    # the state of the cluster
    Bug(
        "a subscriber of the next query of a name counts as one of the last",
        f"{_STATE}/cluster_model.py",
        "return [s for s in all_ if (s.stream, s.id) in record.readers] if is_over(record.state) else all_",
        "return all_",
        (_CLUSTER_STATE,),
    ),
    Bug(
        "an instance manager that was started anew with the same process id is not missed",
        f"{_STATE}/query_status.py",
        "manager.process != process:",
        "manager.process.pid != process.pid:",
        (_CLUSTER_STATE, _BLAME),
    ),
    Bug(
        "all queries on an instance manager are blamed for its death",
        f"{_STATE}/deployments.py",
        "death.blamed is not None and death.blamed.query == name",
        "death.blamed is not None",
        (_BLAME,),
    ),
    Bug(
        "another document of the name is blamed for what the first did",
        f"{_STATE}/blame.py",
        "known is not None and known.document == found else",
        "known is not None else",
        (_BLAME,),
    ),
    Bug(
        "readers of an earlier query of the name are told that it failed",
        f"{_STATE}/deployments.py",
        "if (feed.query, feed.epoch) == (record.name, record.epoch)]",
        "if feed.query == record.name]",
        ("orchestrator/state/test_feeds.py",),
    ),
    Bug(
        "a reader of an earlier query of the name keeps instances where they are",
        f"{_STATE}/moves.py",
        "(feed.query, feed.epoch) == (record.name, record.epoch) and not",
        "feed.query == record.name and not",
        ("orchestrator/state/test_feeds.py",),
    ),
    Bug(
        "what an instance of an earlier deployment says is believed",
        f"{_STATE}/cluster_model.py",
        "seen is not None and seen.epoch == record.epoch",
        "seen is not None",
        (_CLUSTER_STATE,),
    ),
    Bug(
        "the folder of a stream's publishers goes with the first of them",
        f"{_STATE}/catalog.py",
        "            if stream not in self.model.publishers:\n                self.desired.delete",
        "            if True:\n                self.desired.delete",
        (_CLUSTER_STATE,),
    ),
    Bug(
        "what is set aside below im-10 goes with what is below im-1",
        f"{_STATE}/quarantine.py",
        'if path.rpartition("/")[0] == folder and',
        "if path.startswith(folder) and",
        ("orchestrator/state/test_quarantine.py",),
    ),
    Bug(
        "the number of a deployment comes again where the node that counts them was lost",
        f"{_STATE}/cluster_state.py",
        "return max([0, *epochs, *(epoch",
        "return max([0, *epochs, *(0 * epoch",
        (_CLUSTER_STATE, "orchestrator/state/test_quarantine.py"),
    ),
    # load balancing
    Bug(
        "what buckets an earlier deployment reports is counted",
        f"{_BALANCE}/buckets.py",
        'if report["epoch"] == epoch]',
        "if True]",
        ("orchestrator/balance/test_load.py",),
    ),
    Bug(
        "load is measured over a change of the table",
        f"{_BALANCE}/buckets.py",
        "return before.version == self.version and",
        "return",
        ("orchestrator/balance/test_load.py",),
    ),
    Bug(
        "the load of an instance that has moved counts where it is now",
        f"{_BALANCE}/instances.py",
        "if was_at == im and reported > reported_before:",
        "if reported > reported_before:",
        ("orchestrator/balance/test_instance_load.py",),
    ),
    Bug(
        "an instance moves to the idlest place, however far",
        f"{_BALANCE}/instance_load.py",
        "return _best(near, source, worth) or _best(here, source, worth) or _best(others, source, worth)",
        "return _best(others, source, worth)",
        ("orchestrator/balance/test_instance_load.py",),
    ),
    # what stands in ZooKeeper
    Bug(
        "statuses that are not asked for are forgotten",
        "orchestrator/registry.py",
        "there = {*seen, *names} if",
        "there = set(names) if",
        (_REGISTRY,),
    ),
    Bug(
        "of two writes of a node the later one keeps the place of the first",
        "orchestrator/registry.py",
        "            self._pending.pop(command.path, None)  # the last word comes last\n",
        "",
        (_REGISTRY,),
    ),
    Bug(
        "a leader without a fence does not notice that it is deposed",
        "orchestrator/registry.py",
        "isinstance(failure.error, BadVersion) or failure.position == 0:",
        "isinstance(failure.error, BadVersion):",
        (_REGISTRY,),
    ),
    Bug(
        "candidates stand in the order of their sessions",
        "orchestrator/election.py",
        "self._names()), key=_number)",
        "self._names()))",
        ("orchestrator/test_election.py",),
    ),
    Bug(
        "all candidates wait for the first",
        "orchestrator/election.py",
        'node("election", ahead[-1])',
        'node("election", ahead[0])',
        ("orchestrator/test_election.py",),
    ),
    # plans
    Bug(
        "distance is that of the way back",
        "cep/plan/place.py",
        "machines.distance(a, b) for a in places",
        "machines.distance(b, a) for a in places",
        (_PLACE,),
    ),
    Bug(
        "the search for places takes distance for that of the way back",
        "cep/plan/place.py",
        "self.distance[:, seats[link.target]].T",
        "self.distance[seats[link.target]]",
        (_PLACE,),
    ),
    Bug(
        "two replicas cost twice",
        "cep/plan/place.py",
        "cost += problem.cost(seats) / plan.query.options.replicas",
        "cost += problem.cost(seats)",
        (_PLACE,),
    ),
    Bug(
        "ways through two queries are not multiplied",
        "cep/plan/feeds.py",
        "found.update({each: ways * more for each, more in inner})",
        "found.update({each: ways for each, more in inner})",
        ("cep/plan/test_feeds.py",),
    ),
    Bug(
        "of a row of subqueries that keep a partitioning only two move together",
        "cep/plan/moving.py",
        "if any(edge.source in found and",
        "if any(edge.source == head and",
        ("cep/plan/test_moving.py",),
    ),
    Bug(
        "two windows have the grain of the larger one",
        "cep/plan/needed.py",
        "return reduce(gcd, (operator.grain",
        "return reduce(max, (operator.grain",
        ("cep/plan/test_needed.py",),
    ),
    Bug(
        "subqueries stand in the order in which they were cut",
        "cep/plan/split.py",
        "rank = {i: _first_use(part, operators) for i, part in enumerate(parts)}",
        "rank = {i: i for i, part in enumerate(parts)}",
        ("cep/plan/test_split.py",),
    ),
    # messages
    Bug(
        "batches are joined over a change of what is this query's",
        "cep/transport/coalescing.py",
        "header.stream, header.fingerprint, header.since)",
        "header.stream, header.fingerprint, before.since)",
        (_COALESCING,),
    ),
    Bug(
        "a message that left in part is not sent again from its beginning",
        "cep/transport/connections.py",
        "self.connection, self.sent = None, 0",
        "self.connection = None",
        (_SOCKETS,),
    ),
    Bug(
        "the second part of a message begins where the first was cut",
        "cep/transport/connections.py",
        "        sent -= len(part)\n",
        "",
        (_SOCKETS,),
    ),
    # the world
    Bug(
        "what a short write left is not written",
        "cep/world/store.py",
        "left = left[file.append(left) :]",
        "left = left[file.append(left) + len(left) :]",
        ("cep/world/test_store.py",),
    ),
    # instance managers
    Bug(
        "a process is forgotten with its last publisher, though it subscribes",
        "instance_manager/clients/peers.py",
        "if not peer.publishers and not peer.subscriptions:",
        "if not peer.publishers:",
        (_IM_CLIENTS, "instance_manager/clients/test_peers.py"),
    ),
    Bug(
        "silence before this process was stopped does not count",
        "instance_manager/clients/peers.py",
        "peer.heard = min(now, peer.heard + away_s)",
        "peer.heard = now",
        (_IM_CLIENTS, "instance_manager/clients/test_peers.py"),
    ),
    Bug(
        "a publisher that was refused ends its stream",
        "instance_manager/clients/publishers.py",
        "entry.source.finish(last and header.channel not in entry.refused, others)",
        "entry.source.finish(last, others)",
        ("instance_manager/test_broken_messages.py", _IM_CLIENTS),
    ),
    Bug(
        "publishers that were dropped at one reader are forgotten at all",
        "instance_manager/clients/publishers.py",
        "if each.hosted is not hosted}",
        "if False}",
        (_IM_CLIENTS, _REDIRECTS),
    ),
    Bug(
        "an instance that moves here again is not built anew",
        "instance_manager/control/obligations.py",
        "(before.move is None or before.move.number != now.move.number)",
        "before.move is None",
        ("instance_manager/control/test_obligations.py",),
    ),
    Bug(
        "an instance that is back loses its status",
        "instance_manager/control/own_nodes.py",
        "        self._unwritten.add(key)\n        self._gone.discard(key)\n",
        "        self._unwritten.add(key)\n",
        ("instance_manager/control/test_control.py",),
    ),
    # clients
    Bug(
        "a publisher goes on with the number that its last reader knows",
        f"{_CLIENTS}/publisher_core.py",
        "self.numbering.record = max(self.numbering.record, header.record)",
        "self.numbering.record = header.record",
        (_PUBLISHER_CORE,),
    ),
    Bug(
        "a reader of the next query of a name is taken for that of the last",
        "cep/plan/channels.py",
        'return f"{self}@{self.lineage}.{self.attempt}"',
        'return f"{self}@{self.attempt}"',
        ("cep/plan/test_channels.py",),
    ),
    Bug(
        "a publisher believes that it is unknown before it was let in",
        f"{_CLIENTS}/readers.py",
        "if beat <= self.since or word",
        "if word",
        (_READERS,),
    ),
    Bug(
        "an answer of an earlier orchestrator is believed",
        f"{_CLIENTS}/following_core.py",
        "if (int(term), int(number)) < self._seen:",
        "if int(number) < self._seen[1]:",
        (_FOLLOWING,),
    ),
    Bug(
        "of two news the one that waited is told",
        f"{_CLIENTS}/following_core.py",
        "return late | dict(news)",
        "return dict(news) | late",
        (_FOLLOWING,),
    ),
    # processes
    Bug(
        "a process that ran for long waits as if it had died at once again",
        "driver/processes/children.py",
        "self.in_a_row = 0 if now - self.started_at >= STEADY_S else self.in_a_row",
        "pass",
        ("driver/processes/test_supervisor.py",),
    ),
    Bug(
        "the time for which a process was stopped counts for the next hold alone",
        "driver/processes/watch.py",
        "self._since, self._excused, self._ran = loop.since_ns, 0, False",
        "self._since, self._ran = loop.since_ns, False",
        ("cep/service/test_mark.py",),
    ),
    Bug(
        "instance managers are well if the first is",
        "driver/processes/role_health.py",
        'if report["supervisor"] == name for child in report["children"]]',
        'if report["supervisor"] == name for child in report["children"][:1]]',
        ("driver/processes/test_role_health.py",),
    ),
    # Spark
    Bug(
        "the bounds of a session are a µs late",
        "driver/spark/windows.py",
        "shift = SHIFT + (SESSION_SHIFT if isinstance(window, SessionWindow) else 0)",
        "shift = SHIFT",
        (_SPARK,),
    ),
    # HiBench
    Bug(
        "what a short write of records left is not written",
        "hibench/records/file.py",
        "piece = piece[taken:]",
        "piece = piece[len(piece) :]",
        ("hibench/test_records.py",),
    ),
    Bug(
        "a rate that failed below one that was sustained ends the search",
        "hibench/searching/search.py",
        "if each.rate > low and _failed",
        "if _failed",
        ("hibench/test_search.py",),
    ),
    Bug(
        "the noise is the spread of the first group",
        "hibench/report/compare.py",
        "max(NOISE_LEAST, *spreads)",
        "max(NOISE_LEAST, spreads[0])",
        ("hibench/test_compare.py",),
    ),
    Bug(
        "the best probe may be a try of the rate that failed",
        "hibench/searching/searching.py",
        "probe.rate == self.found.rate and not probe.verdict.why_not)",
        "probe.rate == self.found.rate)",
        ("hibench/test_search.py",),
    ),
    # NUMA
    Bug(
        "memory is bound to node 0 in place of node 64",
        "cep/numa.py",
        "mask[node // _WORD_BITS] |= 1",
        "mask[0] |= 1",
        ("cep/test_numa.py",),
    ),
    Bug(
        "huge pages count as small ones",
        "cep/numa.py",
        "pages[int(name[1:])] += int(count) * scale",
        "pages[int(name[1:])] += int(count)",
        ("cep/test_numa.py",),
    ),
    Bug(
        "a query reads one of which the second move has gone too far",
        f"{_STATE}/deployments.py",
        "late = next((record.move for record in moving if record.move is not None and record.move.redirecting), None)",
        "late = next((record.move for record in moving[:1] if record.move is not None and record.move.redirecting), None)",
        ("orchestrator/state/test_feeds.py", _MOVES),
    ),
    Bug(
        "what refers to a plan is withdrawn behind it",
        f"{_STATE}/desired_nodes.py",
        "for path in [path for path in reversed(written) if path not in wanted]:",
        "for path in [path for path in written if path not in wanted]:",
        (_CLUSTER_STATE,),
    ),
    Bug(
        "an instance moves to another process of the instance manager that was named",
        f"{_STATE}/moves.py",
        "if state.managers[move.target].process != move.process:",
        "if False:",
        (_MOVES,),
    ),
    Bug(
        "of two queries that are over the one that is kept longer is due first",
        f"{_STATE}/cluster_state.py",
        "return min(times, default=None)",
        "return max(times, default=None)",
        (_CLUSTER_STATE,),
    ),
    Bug(
        "an instance that was to move rests for ever",
        f"{_BALANCE}/instances.py",
        "{where: looks - 1 for where, looks in",
        "{where: looks for where, looks in",
        ("orchestrator/balance/test_instance_load.py", _MOVES),
    ),
    Bug(
        "a process that has not said which it is was replaced",
        f"{_CLIENTS}/subscription_core.py",
        "producer.replaced = producer.process != 0",
        "producer.replaced = True",
        (_SUBSCRIPTION_CORE,),
    ),
    Bug(
        "a publisher that no query reads outlives its orchestrator",
        f"{_CLIENTS}/publisher_core.py",
        "if gone == here and (gone or refused):",
        "if gone == here and gone:",
        (_PUBLISHER_CORE,),
    ),
    Bug(
        "rows that were dropped before a subscription went are not counted",
        "instance_manager/clients/subscribers.py",
        "outlet.dropped_rows += subscription.dropped + sum(",
        "outlet.dropped_rows += sum(",
        (_IM_CLIENTS,),
    ),
    Bug(
        "the gain of a cell is that over any cell without NUMA",
        "hibench/searching/searching.py",
        "if each.cell == replace(on.cell, numa=False)), None)",
        "if not each.cell.numa), None)",
        ("hibench/test_search.py",),
    ),
    Bug(
        "all files hold as many records as the first",
        "hibench/records/dataset.py",
        "return sum(file.events for file in self.files[:files])",
        "return files * self.files[0].events",
        ("hibench/test_records.py",),
    ),
    Bug(
        "a binding to another core counts",
        "cep/numa.py",
        "if len(cores) == 1 and core in (None, cores[0]):",
        "if len(cores) == 1:",
        ("cep/test_numa.py",),
    ),
    Bug(
        "a cpuset counts more than the affinity",
        "cep/machine.py",
        "return affinity & set(parse_core_list(cpuset))",
        "return frozenset(parse_core_list(cpuset))",
        ("cep/test_machine.py",),
    ),
    Bug(
        "a supervisor that was stopped blames what it watches",
        "driver/processes/watch.py",
        "elif gap > 3 * LOOK_S * 1e9:",
        "elif gap < 0:",
        ("cep/service/test_mark.py",),
    ),
    # what is printed, and what is said of mistakes
    Bug(
        "the CLI takes text for markup", "driver/terminal.py", "Console(markup=False,", "Console(markup=True,", ("driver/test_terminal.py",)
    ),
    Bug(
        "what is to take a query's place does not get its cores",
        f"{_STATE}/cluster_model.py",
        "1 / (1 + self._hosting[m.im] - its[m.im])",
        "1 / (1 + self._hosting[m.im])",
        (_CLUSTER_STATE,),
    ),
    Bug(
        "a stream that clients publish is waited for as an output",
        f"{_STATE}/catalog.py",
        "(declared.event_time is not None or declared.files is not None)",
        "declared.files is not None",
        (_CLUSTER_STATE,),
    ),
    Bug(
        "a row without its event time is told to allow NULL",
        "driver/streams/arrow.py",
        "if field.name == event_time:",
        "if field.name != field.name:",
        ("driver/streams/test_publisher.py",),
    ),
    Bug(
        "every dead letter has values, however many come",
        "cep/dataflow/dead_letters.py",
        "return len(self.letters) < RECORDS_WAITING_MAX",
        "return len(self.letters) <= RECORDS_WAITING_MAX",
        ("cep/dataflow/test_dead_letters.py",),
    ),
)
