"""Class discovery on real words: do reports of new sounds find each other, and is a sound recognised unheard?"""
