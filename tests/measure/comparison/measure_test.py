#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The figures of the comparison, from records whose answers are known."""
import os
import tempfile
import unittest
import xml.etree.ElementTree

import measure
import picture

MS = 1_000_000


class Figures(unittest.TestCase):
    def of(self, lines, ended=None):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "records")
            with open(path, "w") as f:
                f.writelines(
                    "%s %d %d%s\n" % (what, pid, at * MS, "".join(" " + str(r) for r in rest))
                    for what, pid, at, *rest in lines
                )
            return measure.figures(
                measure.Records(path).read(until=10_000 * MS),
                {c: at * MS for c, at in (ended or {}).items()},
            )

    def test_after_each_other(self):
        seen = self.of(
            [
                ("start", 1, 0, "a", 100),
                ("alive", 1, 50),
                ("wrote", 1, 100, 1),
                ("start", 2, 101, "b", 100),
                ("wrote", 2, 201, 2),
            ]
        )
        self.assertEqual(
            (seen["grants"], seen["overlap_ms"], seen["overlaps"], seen["lost_updates"]),
            (2, 0, 0, 0),
        )

    def test_an_overlap_loses_an_update(self):
        seen = self.of(
            [
                ("start", 1, 0, "a", 300),
                ("start", 2, 100, "b", 100),
                ("wrote", 2, 200, 1),
                ("wrote", 1, 300, 1),
            ]
        )
        self.assertEqual(
            (seen["overlap_ms"], seen["overlaps"], seen["updates"], seen["lost_updates"]),
            (100, 1, 2, 1),
        )

    def test_three_at_a_time_count_once(self):
        seen = self.of(
            [
                ("start", 1, 0, "a", 9),
                ("start", 2, 10, "b", 9),
                ("start", 3, 20, "c", 9),
                ("alive", 2, 30),
                ("alive", 3, 40),
                ("alive", 1, 60),
            ]
        )
        self.assertEqual((seen["overlap_ms"], seen["overlaps"]), (30, 1))

    def test_a_killed_child_lives_until_its_last_record_and_writes_nothing(self):
        seen = self.of(
            [
                ("start", 1, 0, "a", 900),
                ("alive", 1, 95),
                ("start", 2, 100, "b", 100),
                ("wrote", 2, 200, 1),
            ]
        )
        self.assertEqual((seen["overlap_ms"], seen["updates"], seen["lost_updates"]), (0, 1, 0))

    def test_orphans(self):
        lines = [
            ("start", 1, 0, "a", 900),
            ("alive", 1, 500),
            ("start", 2, 600, "b", 100),
            ("alive", 2, 650),
        ]
        seen = self.of(lines, {"a": 200, "b": 640})
        self.assertEqual((seen["orphans"], seen["longest_orphan_ms"]), (1, 300))

    def test_what_comes_after_the_end_is_left_out(self):
        seen = self.of(
            [
                ("start", 1, 9_900, "a", 900),
                ("alive", 1, 10_500),
                ("wrote", 1, 10_800, 1),
                ("start", 2, 10_801, "b", 1),
            ]
        )
        self.assertEqual((seen["grants"], seen["updates"], seen["lost_updates"]), (1, 0, 0))


class Picture(unittest.TestCase):
    def test_two_jobs_at_once_are_shown_with_their_time(self):
        rows = [("tool", 3.0, [("A", 0.0, 25.0), ("B", 13.0, 38.0)])]
        self.assertEqual([(13.0, 25.0)], picture.both(rows[0][2]))
        self.assertIn("two jobs at once for 12.0 s", self.text(rows))

    def test_jobs_after_each_other_are_no_overlap(self):
        rows = [("tool", 3.0, [("A", 0.0, 12.0), ("B", 13.0, 38.0)])]
        self.assertEqual([], picture.both(rows[0][2]))
        self.assertIn("never two jobs at once", self.text(rows))

    def text(self, rows):
        return "".join(xml.etree.ElementTree.fromstring(picture.draw(rows)).itertext())


unittest.main()
